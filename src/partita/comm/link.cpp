#include "partita/comm/link.hpp"

#include "partita/comm/mpi.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/clock.hpp"
#include "partita/core/random.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <thread>

namespace partita {

namespace {

LinkModel fromEnvironment() {
  const char* text = std::getenv("PARTITA_LINKS");
  return text == nullptr ? LinkModel{} : parseLinkModel(text);
}

LinkModel& current() {
  static LinkModel model = fromEnvironment();
  return model;
}

} // namespace

LinkModel parseLinkModel(const std::string& text) {
  LinkModel model;
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ',');) {
    const std::size_t equals = entry.find('=');
    const std::string key = entry.substr(0, equals);
    char* end = nullptr;
    const std::string value = equals == std::string::npos ? "" : entry.substr(equals + 1);
    const double number = std::strtod(value.c_str(), &end);
    const bool is_number = !value.empty() && *end == '\0' && std::isfinite(number) && number >= 0.0;
    if (is_number && key == "latency") {
      model.latency = number;
    } else if (is_number && key == "bandwidth") {
      model.bandwidth = number;
    } else if (is_number && key == "delay") {
      model.delay = number;
    } else if (is_number && key == "seed") {
      model.seed = static_cast<std::int64_t>(number);
    } else {
      throw UserError("PARTITA_LINKS: '" + entry + "' is none of latency=S, bandwidth=B, delay=S, seed=N");
    }
  }
  return model;
}

const LinkModel& linkModel() {
  return current();
}

void setLinkModel(const LinkModel& model) {
  current() = model;
}

void delayAtRandom() {
  const LinkModel& model = linkModel();
  if (model.delay <= 0.0) return;
  static std::uint64_t calls = 0;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const RandomStream random(static_cast<std::uint64_t>(model.seed), Stream::link_delay,
                            static_cast<std::uint32_t>(rank));
  const double seconds = model.delay * toUniform(random.block(calls++).word[0]);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

double linkSeconds() {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

double SlowLink::after(std::int64_t bytes, double latency) {
  const double bandwidth = linkModel().bandwidth;
  _free = std::max(_free, linkSeconds()) + (bandwidth > 0.0 ? static_cast<double>(bytes) / bandwidth : 0.0);
  return _free + latency;
}

double SlowLink::arrival(std::int64_t bytes) {
  return after(bytes, linkModel().latency);
}

double SlowLink::summed(std::int64_t bytes, int ranks) {
  const std::int64_t parts = 2 * std::int64_t{ranks - 1};
  return after(bytes * parts / ranks, linkModel().latency * static_cast<double>(parts));
}

} // namespace partita
