#pragma once

#include <string>

// An output may replace an earlier one of the same kind, so that scripts can be run again, but no other file.

namespace partita {

/// A kind of output, and what tells our files of this kind from those of others.
struct OutputKind {
  enum class Mark {
    beginning,   ///< the file begins with this text
    first_array, ///< it is a .npz file of ours, and its first array has this name
    seal ///< its last line is the seal of `sealed`, with this word, and the lines before it are unedited
  };

  Mark mark;
  std::string text;
};

const OutputKind& deckOutput();
const OutputKind& clusterOutput();
const OutputKind& onnxOutput();
const OutputKind& npzOutput(); ///< a network
const OutputKind& predictionsOutput();

/// Text that people edit, such as a deck, with a comment at its end that holds a hash of it.
std::string sealed(const std::string& text, const OutputKind& kind);
/// The text that was sealed. A text without a seal, or that was edited since, is returned as it is.
std::string unsealed(const std::string& text, const OutputKind& kind);

/// Throws UserError if an output would replace a file that is not an unchanged output of this kind, unless
/// the user wants to `overwrite` it. Comes before long work.
void refuseToReplace(const std::string& path, const OutputKind& kind, bool overwrite);

} // namespace partita
