#include "partita/config/layer_types.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/source_directory.hpp"

namespace partita::test::core_sources {

namespace fs = std::filesystem;

namespace {

struct Source {
  fs::path path;
  std::string text;
};

/// All C++ sources of the program, without comments and with runs of white space replaced by one blank.
std::vector<Source> readSources() {
  const std::regex comment("//[^\n]*"), space("\\s+");
  std::vector<Source> sources;
  for (const char* folder : {"src", "apps"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(sourceDirectory()) / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".cpp" && extension != ".hpp") continue;
      std::ifstream file(entry.path());
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      sources.push_back(
          {entry.path(), std::regex_replace(std::regex_replace(text, comment, ""), space, " ")});
    }
  }
  return sources;
}

const std::vector<Source>& programSources() {
  static const std::vector<Source> sources = readSources();
  return sources;
}

/// What group 1 of a pattern matches in all sources, each match with its file.
std::vector<std::pair<std::string, fs::path>> findAll(const std::vector<Source>& sources,
                                                      const std::string& pattern) {
  const std::regex regex(pattern);
  std::vector<std::pair<std::string, fs::path>> found;
  for (const Source& source : sources) {
    for (std::sregex_iterator hit(source.text.begin(), source.text.end(), regex), end; hit != end; ++hit)
      found.emplace_back((*hit)[1].str(), source.path);
  }
  return found;
}

/// The text from `open` to the matching closing bracket.
std::string bracketed(const std::string& text, std::size_t open) {
  int depth = 0;
  std::size_t end = open;
  do {
    const char c = text[end++];
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
  } while (depth > 0 && end < text.size());
  return text.substr(open, end - open);
}

/// The bodies of all functions or lambdas after a macro that matches, each with its file; any host-only part
/// is left out.
std::vector<std::pair<std::string, fs::path>> deviceCode(const std::vector<Source>& sources,
                                                         const std::string& macro) {
  static const std::regex host_part("(#if defined\\(__CUDA_ARCH__\\).*?)#else.*?#endif");
  const std::regex begin(macro + "\\b[^;{]*\\{");
  std::vector<std::pair<std::string, fs::path>> found;
  for (const Source& source : sources) {
    const bool parted = source.text.find("#if defined(__CUDA_ARCH__)") != std::string::npos;
    const std::string text = parted ? std::regex_replace(source.text, host_part, "$1") : source.text;
    for (std::sregex_iterator hit(text.begin(), text.end(), begin), end; hit != end; ++hit)
      found.emplace_back(bracketed(text, static_cast<std::size_t>(hit->position() + hit->length()) - 1),
                         source.path);
  }
  return found;
}

bool isLabel(const std::string& text) {
  return text.rfind("partita::", 0) == 0;
}

/// Is it one of these files, whose paths are relative to the project?
bool isOneOf(const fs::path& file, const std::vector<std::string>& files) {
  const std::string path = fs::relative(file, sourceDirectory()).generic_string();
  return std::find(files.begin(), files.end(), path) != files.end();
}

} // namespace

TEST_CASE("There is no global fence in the sources", "[core]") {
  const auto& sources = programSources();
  REQUIRE(sources.size() > 100);
  for (const auto& [hit, path] :
       findAll(sources, "(Kokkos::fence|impl_static_fence|ExecSpace\\s*(\\(\\)|\\{\\})\\.fence)")) {
    FAIL_CHECK(path << ": " << hit);
  }
  for (const auto& [hit, path] : findAll(sources, "(\\.fence\\(\\))")) // but in the function that labels them
    if (path.filename() != "types.hpp") FAIL_CHECK(path << ": " << hit);
}

TEST_CASE("Ranks wait for others where the watchdog sees it, not inside MPI", "[core]") {
  const std::vector<std::string> known{
      "loss_watch.cpp: MPI_Recv", // of a message that has arrived, as in the mailbox and the watchdog
      "mailbox.cpp: MPI_Mrecv",
      "mpi.cpp: MPI_Comm_create_group", // of ranks that have all left a wait
      "mpi.cpp: MPI_Comm_dup",          // of the world, before there is a watchdog
      "mpi.cpp: MPI_Comm_split",        // right after a barrier, as the next five
      "mpi.cpp: MPI_Comm_split_type",
      "nccl.cpp: MPI_Bcast",
      "rank_places.cpp: MPI_Allgather",
      "shared_window.cpp: MPI_Win_allocate_shared",
      "shared_window.cpp: MPI_Win_free",
      "wait.cpp: MPI_Wait", // for a receive that was cancelled
      "watchdog.cpp: MPI_Recv",
  };
  const std::string blocks =
      "\\b(MPI_(?:Barrier|Bcast|All[a-z]+|Gatherv?|Scatterv?|Reduce[a-z_]*|Scan|Exscan|"
      "[BRS]?[Ss]end|M?[Rr]ecv|Sendrecv|M?[Pp]robe|Wait[a-z]*|Win_free|Win_fence|"
      "Win_allocate_shared|Comm_(?:dup|split|split_type|create[a-z_]*)))\\(";
  std::vector<std::string> found;
  for (const auto& [call, path] : findAll(programSources(), blocks))
    found.push_back(path.filename().string() + ": " + call);
  std::sort(found.begin(), found.end());
  CHECK(found == known);
}

TEST_CASE("Every kernel has a label of ours", "[core]") {
  const auto& sources = programSources();
  // These files pass on the label of their caller. Loops of a team within a kernel have none.
  const std::set<std::string> pass_on{"loops.hpp",  "rows.hpp",  "channels.hpp", "channel_sums.hpp",
                                      "places.hpp", "packs.hpp", "pool.cpp",     "typed_matrix.cpp"};
  const auto kernels = findAll(
      sources, "parallel_(?:for|reduce|scan)\\( ?(?! ?(?:Kokkos::T|threads\\.range))(\"[^\"]*|label,|.)");
  const auto loops = findAll(
      sources,
      "[^d] "
      "(?:forEach(?:Element|Value|Run|Row|Image|Channel|Place|Pack|ChannelPack)|sumColumns|addScaled)\\( "
      "?space, (\"[^\"]*|label,|.)");
  CHECK(kernels.size() > 10);
  CHECK(loops.size() > 40);
  for (const auto* calls : {&kernels, &loops}) {
    for (const auto& [label, path] : *calls) {
      INFO(path << ": " << label);
      const bool passes_on = pass_on.count(path.filename().string()) > 0;
      CHECK((label == "label," ? passes_on : isLabel(label.substr(1))));
    }
  }
}

TEST_CASE("Every view, region and fence has a label of ours", "[core]") {
  const auto& sources = programSources();
  const std::vector<std::string> patterns{
      "view_alloc\\([^\";]*\"([^\"]*)",                                 // allocations
      "make(?:Matrix|Vector)\\( ?\"([^\"]*)",                           //
      "(?:Matrix|Vector|Labels|View<[^;>]*>)(?: \\w+)?\\( ?\"([^\"]*)", //
      "[:,] _\\w+\\( ?\"([^\"]*)",                                      // members
      "Region \\w+\\(\\w+, \"([^\"]*)",                                 // regions
      "pushRegion\\( ?\"([^\"]*)",                                      //
      "[ .]fence\\([^\";]*\"([^\"]*)",                                  // fences of one space
  };
  std::size_t count = 0;
  for (const std::string& pattern : patterns) {
    for (const auto& [label, path] : findAll(sources, pattern)) {
      INFO(path << ": " << label);
      CHECK(isLabel(label));
      ++count;
    }
  }
  CHECK(count > 60);
}

TEST_CASE("No kernel has the name of a region", "[core]") {
  const auto& sources = programSources();
  std::set<std::string> regions;
  for (const auto& [label, path] : findAll(sources, "Region \\w+\\(\\w+, \"([^\"]*)")) regions.insert(label);
  CHECK(regions.size() > 15);
  // Tools that count by name would add the two together.
  for (const auto& [label, path] :
       findAll(sources, "(?:parallel_(?:for|reduce|scan)\\(|(?:forEach(?:Element|"
                        "Value|Run|Pack|ChannelPack)|sumColumns)\\( ?space,) ?\"([^\"]*)")) {
    INFO(path << ": " << label);
    CHECK(regions.count(label) == 0);
  }
}

TEST_CASE("The pages of the rooms name the rooms that they use", "[core]") {
  // Each room uses some of those before it.
  const std::vector<std::string> order{"config", "plan",  "core", "comm",     "data", "kernels",
                                       "nn",     "optim", "io",   "strategy", "train"};
  std::map<std::string, std::set<std::string>> used;
  for (const auto& [room, path] : findAll(programSources(), "#include \"partita/(\\w+)/")) {
    const std::string own = path.parent_path().string();
    for (const std::string& name : order)
      if (own.find("/src/partita/" + name) != std::string::npos && room != name) used[name].insert(room);
  }
  const auto place = [&](const std::string& room) { return std::find(order.begin(), order.end(), room); };
  for (const auto& [room, rooms] : used) {
    INFO("room " << room);
    for (const std::string& other : rooms) CHECK(place(other) < place(room));
    std::smatch sentence;
    std::ifstream file(fs::path(sourceDirectory()) / "src" / "partita" / room / "README.md");
    const std::string page{std::istreambuf_iterator<char>(file), {}};
    const bool says = std::regex_search(page, sentence, std::regex("Uses\\s(`[^;.]*|Kokkos[^;.]*)[;.]"));
    CHECK(says);
    if (!says) continue;
    std::set<std::string> named;
    const std::string list = sentence[1];
    const std::regex names("`(\\w+)`");
    for (std::sregex_iterator name(list.begin(), list.end(), names), end; name != end; ++name)
      named.insert((*name)[1]);
    CHECK(named == rooms);
  }
  CHECK(used.size() == order.size() - 1); // config uses none
}

TEST_CASE("What a device may run calls nothing that only a host has", "[core]") {
  static const std::regex types("std::(u?int(8|16|32|64)_t|uintptr_t|size_t|ptrdiff_t)\\b"); // only names
  static const std::regex host_only("std::|\\b(throw|new|delete|printf)\\b");
  const auto bodies = deviceCode(programSources(), "KOKKOS_(LAMBDA|CLASS_LAMBDA|FUNCTION|INLINE_FUNCTION)");
  CHECK(bodies.size() > 30);
  for (const auto& [body, path] : bodies) {
    INFO(path << ": " << body);
    CHECK_FALSE(std::regex_search(std::regex_replace(body, types, ""), host_only));
  }
}

TEST_CASE("No kernel captures `this`, a pointer into the memory of the host", "[core]") {
  static const std::regex member("[^\\w.>]_[a-z]\\w*|\\bthis\\b");
  const auto lambdas = deviceCode(programSources(), "KOKKOS_LAMBDA");
  CHECK_FALSE(lambdas.empty());
  for (const auto& [body, path] : lambdas) {
    INFO(path << ": " << body);
    CHECK_FALSE(std::regex_search(body, member));
  }
}

TEST_CASE("Every source includes its own header first, so that headers stand alone", "[core]") {
  for (const Source& source : programSources()) {
    const fs::path header = fs::path(source.path).replace_extension(".hpp");
    if (source.path.extension() != ".cpp" || !fs::exists(header)) continue;
    const auto name = fs::relative(header, fs::path(sourceDirectory()) / "src").generic_string();
    INFO(source.path);
    if (name.rfind("partita/", 0) == 0) CHECK(source.text.rfind("#include \"" + name + "\"", 0) == 0);
  }
}

TEST_CASE("Nobody but a strategy's own plan and folder asks which strategy runs", "[sources]") {
  std::vector<Source> others;
  for (const Source& source : programSources()) {
    const std::string path = source.path.generic_string();
    const auto in = [&](const char* part) { return path.find(part) != std::string::npos; };
    if (!in("/config/") && !in("/plan/strategies/") && !in("/strategy/registry.") && !in("/strategy/sil/") &&
        !in("/strategy/pipeline/"))
      others.push_back(source);
  }
  REQUIRE(others.size() < programSources().size());
  // They make decks of a kind that they choose.
  const std::vector<std::string> choose{"src/partita/plan/placement/deck_chain.cpp",
                                        "src/partita/plan/cost/rank_strategies.cpp",
                                        "apps/partita/bench_model.cpp", "apps/partita/calibrate_kernels.cpp"};
  for (const auto& [test, path] :
       findAll(others, "(StrategyKind::\\w+|StageInput::\\w+|kind [!=]= Strategy\\w+)"))
    if (!isOneOf(path, choose)) FAIL_CHECK(path << ": " << test);
  // A strategy is reached through its plan and its rules. Exceptions: the mark of a log, stages that
  // have labels, and the forms of the cost model.
  const std::vector<std::string> include{
      "src/partita/train/own_files.hpp",      "src/partita/strategy/local_stage.cpp",
      "src/partita/plan/cost/prediction.hpp", "src/partita/plan/cost/cost_model.cpp",
      "src/partita/plan/cost/program.cpp",    "src/partita/plan/cost/rank_strategies.cpp"};
  for (const auto& [folder, path] :
       findAll(others,
               "#include \"partita/((?:strategy|plan)/(?:hogbatch|sil|local_sgd|pipeline|strategies)/)")) {
    const std::string place = path.generic_string();
    const bool own =
        place.find("/hogbatch/") != std::string::npos || place.find("/local_sgd/") != std::string::npos;
    if (!own && !isOneOf(path, include)) FAIL_CHECK(path << ": includes " << folder);
  }
  // The settings of one kind matter to its plan and its folder.
  for (const auto& [setting, path] : findAll(others, "(strategy\\.(?:hogbatch|local_sgd|sil)\\b[.\\w]*)")) {
    const std::string place = path.generic_string();
    const auto in = [&](const char* part) { return place.find(part) != std::string::npos; };
    const bool own = in("/hogbatch/") || in("/local_sgd/");
    if (!own) FAIL_CHECK(path << ": " << setting);
  }
  // Do workers take batches at their own pace? Such questions may become fewer, not more.
  std::size_t questions = 0;
  for (const auto& [hit, path] : findAll(others, "(\\.atOwnPace\\(\\))"))
    questions += path.generic_string().find("/hogbatch/") == std::string::npos ? 1 : 0;
  CHECK(questions <= 6);
}

TEST_CASE("Only the four tables of layers distinguish types", "[sources]") {
  std::vector<Source> others;
  for (const Source& source : programSources()) {
    const std::string path = source.path.generic_string();
    const auto in = [&](const char* part) { return path.find(part) != std::string::npos; };
    if (in("/src/partita/") && !in("/config/layer_types.cpp") && !in("/plan/layers/") &&
        !in("/nn/layer.cpp") && !in("/plan/search/transformer") && !in("/io/onnx_layers.cpp") &&
        !in("/config/names.cpp"))
      others.push_back(source);
  }
  REQUIRE(others.size() + 5 < programSources().size());
  std::string names;
  for (const std::string& name : layerTypes().names()) names += "|" + name;
  const auto found = findAll(others, "(\"(?:" + names.substr(1) + ")\"|dynamic_cast)");
  for (const auto& [name, path] : found) WARN(path << ": " << name);
  CHECK(found.size() <= 1); // the default of a spec
}

} // namespace partita::test::core_sources
