#include "partita/io/earlier_output.hpp"

#include "partita/config/files.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/sha256.hpp"
#include "partita/io/npz.hpp"
#include "partita/io/onnx.hpp"
#include "partita/io/output_file.hpp"

#include <cstdint>
#include <filesystem>

namespace partita {

const OutputKind& deckOutput() {
  static const OutputKind kind{OutputKind::Mark::seal, "deck"};
  return kind;
}

const OutputKind& clusterOutput() {
  static const OutputKind kind{OutputKind::Mark::seal, "description of a cluster"};
  return kind;
}

const OutputKind& onnxOutput() {
  static const OutputKind kind{OutputKind::Mark::beginning, onnx_mark};
  return kind;
}

const OutputKind& npzOutput() {
  static const OutputKind kind{OutputKind::Mark::first_array, first_array_of_network};
  return kind;
}

const OutputKind& predictionsOutput() {
  static const OutputKind kind{OutputKind::Mark::first_array, first_array_of_predictions};
  return kind;
}

namespace {

std::string sealBegin(const OutputKind& kind) {
  return "# A " + kind.text + " by Partita, unedited while the lines above have the SHA-256 ";
}

std::string sealOf(const std::string& text, const OutputKind& kind) {
  Sha256 hash;
  hash.update(text.data(), text.size());
  return sealBegin(kind) + hash.hex() + "\n";
}

/// Where the last line with a seal begins, whether or not it holds; npos if there is none.
std::size_t sealPlace(const std::string& text, const OutputKind& kind) {
  const std::size_t place = text.rfind(sealBegin(kind));
  return place == 0 || (place != std::string::npos && text[place - 1] == '\n') ? place : std::string::npos;
}

enum class State { unchanged, edited, foreign };

State stateOfText(const std::string& text, const OutputKind& kind) {
  const std::size_t place = sealPlace(text, kind);
  if (place == std::string::npos) return State::foreign;
  return text.substr(place) == sealOf(text.substr(0, place), kind) ? State::unchanged : State::edited;
}

State stateOf(const std::string& path, const OutputKind& kind) {
  constexpr std::uint64_t most_text = 64 << 20; // bytes, more than any of ours has
  bool ours = false;
  switch (kind.mark) {
  case OutputKind::Mark::beginning:
    ours = firstBytes(path, kind.text.size()) == kind.text;
    break;
  case OutputKind::Mark::first_array:
    ours = isOwnNpz(path, kind.text);
    break;
  case OutputKind::Mark::seal:
    if (std::filesystem::file_size(path) > most_text) return State::foreign;
    return stateOfText(readTextFile(path, most_text), kind);
  }
  return ours ? State::unchanged : State::foreign;
}

} // namespace

std::string sealed(const std::string& text, const OutputKind& kind) {
  return text + sealOf(text, kind);
}

std::string unsealed(const std::string& text, const OutputKind& kind) {
  if (stateOfText(text, kind) != State::unchanged) return text;
  return text.substr(0, sealPlace(text, kind));
}

void refuseToReplace(const std::string& path, const OutputKind& kind, bool overwrite) {
  if (overwrite || !replacesContent(path)) return;
  const State state = stateOf(path, kind);
  if (state == State::edited)
    throw UserError(path +
                    ": has been edited since Partita wrote it, and would be overwritten; choose another "
                    "name, or add --overwrite");
  if (state == State::foreign)
    throw UserError(path + ": is not known as an output of this command, and would be overwritten; choose "
                           "another name, or add --overwrite");
}

} // namespace partita
