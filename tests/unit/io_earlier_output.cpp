#include "partita/io/earlier_output.hpp"
#include "partita/io/npz.hpp"
#include "partita/io/onnx.hpp"
#include "partita/io/output_file.hpp"

#include <fcntl.h>
#include <filesystem>
#include <string>
#include <unistd.h>

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::io_earlier_output {

namespace {

namespace fs = std::filesystem;

const std::string foreign = ": is not known as an output of this command, and would be overwritten; choose "
                            "another name, or add --overwrite";
const std::string edited =
    ": has been edited since Partita wrote it, and would be overwritten; choose another "
    "name, or add --overwrite";

/// What follows the path in the message of a refusal; empty if there is none.
std::string refusal(const std::string& path, const OutputKind& kind, bool overwrite = false) {
  const std::string message = messageOf([&] { refuseToReplace(path, kind, overwrite); });
  if (message.empty()) return message;
  REQUIRE(message.rfind(path, 0) == 0);
  return message.substr(path.size());
}

const OutputKind list{OutputKind::Mark::beginning, "[\n  {\n    \"name\": "};

/// A network of one layer without values.
JoinedNetwork smallNetwork() {
  JoinedNetwork network;
  network.inputs = 1;
  network.classes = 1;
  network.shift = {1.0F};
  network.scale = {0.5F};
  Operation dense;
  dense.type = "dense";
  dense.name = "layer0.dense";
  dense.tensors = {{"layer0.dense/weight", {1, 1}, {1}}};
  network.operations = {dense};
  return network;
}

} // namespace

TEST_CASE("Only an unedited text of the same kind is replaced", "[io]") {
  const ScratchFolder folder;
  const std::string deck = sealed("[run]\nseed = 3\n", deckOutput());
  CHECK(refusal(folder.write("ours", deck), deckOutput()).empty());
  CHECK(refusal(folder.path("ours"), clusterOutput()) == foreign);
  CHECK(refusal(folder.write("mine", "[run]\nseed = 3\n"), deckOutput()) == foreign);
  CHECK(refusal(folder.path("mine"), deckOutput(), true).empty());
  CHECK(refusal(folder.write("copy", "# " + deck), deckOutput()) == edited);
  std::string changed = deck;
  changed[changed.find('3')] = '4';
  CHECK(refusal(folder.write("changed", changed), deckOutput()) == edited);
  CHECK(refusal(folder.write("longer", deck + "# a note\n"), deckOutput()) == edited);
  CHECK(refusal(folder.write("shorter", deck.substr(deck.find('\n') + 1)), deckOutput()) == edited);
  CHECK(refusal(folder.path("changed"), deckOutput(), true).empty());
}

TEST_CASE("A seal is a comment, and comes off only if it holds", "[io]") {
  const std::string text = "[run]\nseed = 3\n", deck = sealed(text, deckOutput());
  CHECK(deck.rfind(text + "# A deck by Partita, unedited while ", 0) == 0);
  CHECK(deck.find('\n', text.size()) == deck.size() - 1);
  CHECK(unsealed(deck, deckOutput()) == text);
  CHECK(unsealed(text, deckOutput()) == text);
  CHECK(unsealed(deck + "\n", deckOutput()) == deck + "\n");
  CHECK(unsealed(deck, clusterOutput()) == deck);
  CHECK(unsealed(sealed(deck, deckOutput()), deckOutput()) == deck);
  CHECK(unsealed(sealed("", deckOutput()), deckOutput()).empty());
}

TEST_CASE("A file that begins as all of its kind do is replaced", "[io]") {
  const ScratchFolder folder;
  CHECK(refusal(folder.write("ours", list.text + "\"mlp\"\n  }\n]\n"), list).empty());
  CHECK(refusal(folder.write("mine", "[{\"name\": \"mlp\"}]\n"), list) == foreign);
  CHECK(refusal(folder.write("short", "["), list) == foreign);
}

TEST_CASE("Exported networks are told from other archives and models", "[io]") {
  const ScratchFolder folder;
  writeNpz(folder.path("ours.npz"), smallNetwork());
  writeOnnx(folder.path("ours.onnx"), smallNetwork());
  CHECK(refusal(folder.path("ours.npz"), npzOutput()).empty());
  CHECK(refusal(folder.path("ours.onnx"), onnxOutput()).empty());
  CHECK(refusal(folder.path("ours.npz"), onnxOutput()) == foreign);
  CHECK(refusal(folder.path("ours.onnx"), npzOutput()) == foreign);
  NpzWriter other(folder.path("other.npz"));
  other.add("input/shift2", {1}, std::vector<float>{1.0F});
  other.commit();
  CHECK(refusal(folder.path("other.npz"), npzOutput()) == foreign);
  CHECK(refusal(folder.path("other.npz"), {OutputKind::Mark::first_array, "input/shift2"}).empty());
  std::string saved = folder.read("ours.npz"); // as numpy.savez writes it: with an extra field
  saved[4] = 45;
  saved[28] = 20;
  CHECK(refusal(folder.write("saved.npz", saved), npzOutput()) == foreign);
  const std::string model = folder.read("ours.onnx");
  const std::string pytorch = model.substr(0, 3) + "\x07pytorch" + model.substr(11);
  CHECK(refusal(folder.write("other.onnx", pytorch), onnxOutput()) == foreign);
}

TEST_CASE("Arrays of more than 4 GB are recognised by their 64-bit sizes", "[io]") {
  const ScratchFolder folder;
  const ZipMember member{"features.npy", 6000000000, 0, 0x12345678};
  folder.write("large.npz", zipLocalHeader(member));
  CHECK(isOwnNpz(folder.path("large.npz"), "features"));
  CHECK_FALSE(isOwnNpz(folder.path("large.npz"), "labels"));
  std::string narrow = zipLocalHeader(member); // 64-bit form without need
  for (int i = 4; i < 8; ++i) narrow[narrow.size() - 16 + i] = narrow[narrow.size() - 8 + i] = 0;
  CHECK_FALSE(isOwnNpz(folder.write("narrow.npz", narrow), "features"));
}

TEST_CASE("What loses nothing is written to, whatever it is", "[io]") {
  const ScratchFolder folder;
  CHECK(refusal(folder.path("new"), list).empty());
  CHECK(refusal(folder.write("empty", ""), list).empty());
  CHECK(refusal("/dev/null", list).empty());
  const int log = open(folder.write("log", "kept\n").c_str(), O_WRONLY);
  REQUIRE(log >= 0);
  fs::create_symlink("/dev/fd/" + std::to_string(log), folder.path("link"));
  CHECK(refusal(folder.path("link"), list).empty());
  close(log);
  CHECK(refusal("/dev/fd/777", list).empty());
  CHECK(refusal(folder.path(), list).empty()); // OutputFile reports it
}

TEST_CASE("A link stands for the file to which it leads", "[io]") {
  const ScratchFolder folder;
  folder.write("mine", "kept\n");
  fs::create_symlink("mine", folder.path("link"));
  CHECK(refusal(folder.path("link"), list) == foreign);
  fs::create_symlink("nowhere", folder.path("broken"));
  CHECK(refusal(folder.path("broken"), list).empty());
}

TEST_CASE("A file that cannot be read may be somebody's", "[io]") {
  if (geteuid() == 0) return; // may read everything
  const ScratchFolder folder;
  fs::permissions(folder.write("closed", "kept\n"), fs::perms::owner_write);
  CHECK(refusal(folder.path("closed"), list) == ": cannot be read: Permission denied");
  CHECK(refusal(folder.path("closed"), list, true).empty());
}

} // namespace partita::test::io_earlier_output
