#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace fs = std::filesystem;

namespace {

struct Source {
  fs::path path;
  std::string text;
};

/// All C++ sources of the program, comments removed and runs of white space made one blank.
std::vector<Source> programSources() {
  static const std::regex comment("//[^\n]*"), space("\\s+");
  std::vector<Source> sources;
  for (const char* folder : {"src", "apps"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(PARTITA_SOURCE_DIR) / folder)) {
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

/// What group 1 of a pattern finds in all sources, each with its file.
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

bool isLabel(const std::string& text) {
  return text.rfind("partita::", 0) == 0;
}

} // namespace

TEST_CASE("There is no global fence in the sources", "[core]") {
  const auto sources = programSources();
  REQUIRE(sources.size() > 100);
  for (const auto& [hit, path] :
       findAll(sources, "(Kokkos::fence|impl_static_fence|ExecSpace\\s*(\\(\\)|\\{\\})\\.fence)")) {
    FAIL_CHECK(path << ": " << hit);
  }
}

TEST_CASE("Every kernel has a label of ours", "[core]") {
  const auto sources = programSources();
  // loops.hpp hands on the label it was given.
  const auto kernels = findAll(sources, "parallel_(?:for|reduce|scan)\\( ?(\"[^\"]*|label,|.)");
  const auto loops = findAll(sources, "[^d] forEach(?:Element|Value)\\(space, (\"[^\"]*|.)");
  CHECK(kernels.size() > 10);
  CHECK(loops.size() > 5);
  for (const auto& [label, path] : kernels) {
    INFO(path << ": " << label);
    CHECK((label == "label," ? path.filename() == "loops.hpp" : isLabel(label.substr(1))));
  }
  for (const auto& [label, path] : loops) {
    INFO(path << ": " << label);
    CHECK(isLabel(label.substr(1)));
  }
}

TEST_CASE("Every view, region and fence has a label of ours", "[core]") {
  const auto sources = programSources();
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

TEST_CASE("Every source includes its own header first, so that headers stand alone", "[core]") {
  for (const Source& source : programSources()) {
    const fs::path header = fs::path(source.path).replace_extension(".hpp");
    if (source.path.extension() != ".cpp" || !fs::exists(header)) continue;
    const auto name = fs::relative(header, fs::path(PARTITA_SOURCE_DIR) / "src").generic_string();
    INFO(source.path);
    if (name.rfind("partita/", 0) == 0) CHECK(source.text.rfind("#include \"" + name + "\"", 0) == 0);
  }
}
