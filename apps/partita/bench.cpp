#include "partita/comm/agree.hpp"
#include "partita/config/names.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/clock.hpp"
#include "partita/core/log.hpp"
#include "partita/core/loops.hpp"
#include "partita/kernels/products.hpp"
#include "partita/train/banner.hpp"

#include <algorithm>
#include <functional>
#include <optional>

#include "bench_model.hpp"
#include "commands.hpp"
#include "result_file.hpp"

namespace partita {

namespace {

/// a = b + s c over arrays far larger than any cache, counted as three passes (McCalpin, STREAM).
struct Triad {
  Real *a, *b, *c;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const { a[i] = b[i] + Real(3) * c[i]; }
};

double measureTriad(const ExecSpace& space, int repeats) {
  const std::int64_t size = std::int64_t{1} << 25;
  const Vector a("partita::bench::a", size), b("partita::bench::b", size), c("partita::bench::c", size);
  double best = 0.0;
  for (int i = 0; i <= repeats; ++i) {
    const auto start = Clock::now();
    forEachValue(space, "partita::bench::triad", size, Triad{a.data(), b.data(), c.data()});
    fence(space, "partita::bench::triad");
    best = std::max(best, 3e-9 * static_cast<double>(size * sizeof(Real)) / secondsSince(start));
  }
  return best;
}

std::vector<JsonObject> listOf(const std::vector<Measurement>& measurements) {
  std::vector<JsonObject> list(measurements.size());
  for (std::size_t i = 0; i < measurements.size(); ++i) {
    list[i].add("name", measurements[i].name);
    list[i].add("value", measurements[i].value);
    list[i].add("unit", measurements[i].unit);
    if (measurements[i].flops == 0.0) continue;
    list[i].add("flops", measurements[i].flops);
    list[i].add("bytes", measurements[i].bytes);
  }
  return list;
}

double bestRate(const ExecSpace& space, int repeats, Precision precision) {
  double best = 0.0;
  for (const int n : {512, 1024, 2048})
    best = std::max(best, measureGemmRate(space, device_is_host ? n : 4 * n, repeats, precision));
  return best;
}

/// Measures the rates of a machine, in float and with bf16 numbers.
struct Machine {
  BenchRates single, bf16;

  Machine() = default;
  Machine(const ExecSpace& space, int repeats) {
    single.gemm = bestRate(space, repeats, Precision::single);
    bf16.gemm = bestRate(space, repeats, Precision::bf16);
    single.triad = bf16.triad = measureTriad(space, repeats);
    bf16.product = "bgemm";
    Log::info(formatted("  sgemm %.1f GFLOP/s, bgemm %.1f GFLOP/s (%s), triad %.1f GB/s, best of %d",
                        single.gemm, bf16.gemm, gemmPath(Precision::bf16).c_str(), single.triad, repeats));
  }
};

/// Is this measurement wanted?
using Wanted = std::function<bool(const std::string& name)>;

/// Benchmarks the models; `ending` is appended to their names.
void measureModels(const ExecSpace& space, const BenchSetting& setting, const std::string& ending, bool quick,
                   const BenchRates& rates, const Wanted& wanted, std::vector<Measurement>& measured) {
  const auto steps = [&](const std::string& name, const auto& make) {
    if (!wanted(name + ending)) return;
    BenchModel model = make();
    measured.push_back(measureSteps(space, name + ending, model, quick, rates));
  };
  for (const std::pair<int, int>& size : {std::pair<int, int>{256, 128}, {256, 1024}, {2048, 512}})
    steps("mlp" + std::to_string(size.first) + "_b" + std::to_string(size.second),
          [&] { return perceptron(size.first, size.second, setting); });
  steps("lenet_b128", [&] { return leNet(128, setting); });
  steps("resnet_b64", [&] { return smallResNet(64, setting); });
  steps("gpt256_b16", [&] { return smallGpt(setting); });
}

/// All measurements that are wanted, after those of the machine.
std::vector<Measurement> measureAll(const ExecSpace& space, const BenchSetting& setting,
                                    const BenchModel& gpt, bool quick, const Machine& machine,
                                    const Wanted& wanted) {
  std::vector<Measurement> measured;
  const Precision precision = gpt.config.run.precision;
  if (precision != Precision::single) { // by an override; single layers compute in float
    measureModels(space, setting, "_" + nameOf(precision), quick, machine.bf16, wanted, measured);
    return measured;
  }
  measureModels(space, setting, "", quick, machine.single, wanted, measured);
  if (wanted("attention256")) measured.push_back(measureAttention(space, gpt, quick, machine.single));
  for (const Measurement& layer : measureConvolutions(space, quick, machine.single, wanted))
    measured.push_back(layer);
  measureModels(space, setting.with("run/precision=bf16"), "_bf16", quick, machine.bf16, wanted, measured);
  return measured;
}

/// The models keep what their names say, so that results can be compared.
void checkOverrides(const std::vector<std::string>& overrides) {
  for (const std::string& override : overrides) {
    const std::string section = override.substr(0, override.find_first_of("/."));
    if (section == "data" || section == "network" || section == "strategy")
      throw UserError("'" + override + "': the models of bench have their own data, network and strategy");
    if (const std::string key = override.substr(0, override.find('='));
        key == "training/batch" || key == "training.batch")
      throw UserError("'" + override + "': the models of bench have their own batches");
  }
}

} // namespace

void runBench(const Communicator& world, const BenchArguments& arguments, const std::string& command_line) {
  const ExecSpace space;
  std::optional<ResultFile> json; // first, so that a bad path is reported before minutes of measuring
  collectively(world, [&] {
    checkOverrides(arguments.overrides);
    if (world.rank() == 0)
      json.emplace(arguments.json, std::vector<std::string>{}, jsonList("name"), arguments.overwrite);
  });
  showBanner(space, world, command_line);
  const Communicator self = world.split(world.rank(), 0);
  const BenchSetting setting{self, arguments.overrides};
  std::optional<BenchModel> gpt;
  collectively(world, [&] { gpt.emplace(smallGpt(setting)); }); // mistakes in the overrides are reported here
  const bool quick = arguments.quick;
  const auto begins = [&](const std::string& name) { return name.rfind(arguments.only, 0) == 0; };
  bool any = false; // known before minutes of measuring: this pass only asks for names
  measureAll(space, setting, *gpt, quick, {}, [&](const std::string& name) {
    any = any || begins(name);
    return false;
  });
  collectively(world, [&] {
    if (!any) throw UserError("--only: no measurement has a name that begins with '" + arguments.only + "'");
  });
  const Machine machine(space, quick ? 2 : 7);
  std::vector<Measurement> measured{{"sgemm", machine.single.gemm, "GFLOP/s"},
                                    {"bgemm", machine.bf16.gemm, "GFLOP/s"},
                                    {"triad", machine.single.triad, "GB/s"}};
  for (const Measurement& each : measureAll(space, setting, *gpt, quick, machine, begins))
    measured.push_back(each);
  collectively(world, [&] {
    if (json) json->write(listText(listOf(measured)));
  });
}

} // namespace partita
