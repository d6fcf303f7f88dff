#pragma once

#include "partita/core/log.hpp"
#include "partita/io/earlier_output.hpp"
#include "partita/io/json.hpp"
#include "partita/io/output_file.hpp"
#include "partita/train/run_files.hpp"

#include <optional>
#include <string>
#include <vector>

namespace partita {

/// The objects as a list; each starts a new line.
inline std::string listText(const std::vector<JsonObject>& objects) {
  std::string text = "[";
  for (const JsonObject& object : objects) text += (text.size() > 1 ? ",\n  " : "\n  ") + object.text(2);
  return text + "\n]";
}

/// A file with an object, whose first key is this.
inline OutputKind jsonObject(const std::string& first_key) {
  return {OutputKind::Mark::beginning, "{\n  \"" + first_key + "\": "};
}

/// A file with the text of a list, in which this is the first key of the objects.
inline OutputKind jsonList(const std::string& first_key) {
  return {OutputKind::Mark::beginning, "[\n  {\n    \"" + first_key + "\": "};
}

/// The destination of `--json`: a file, standard output ("-"), or nowhere (""). It is created first, so that
/// a bad path is reported before the work. Commands write it before they print the same results, because a
/// reader that leaves, such as `head`, ends the program.
class ResultFile {
 public:
  /// Throws UserError if the file is one of the inputs, would replace a file of another kind, or cannot be
  /// written.
  ResultFile(const std::string& path, const std::vector<std::string>& inputs, const OutputKind& kind,
             bool overwrite)
      : _standard_output(path == "-") {
    if (path.empty() || _standard_output) return;
    refuseOutput(path, inputs);
    refuseToReplace(path, kind, overwrite);
    _file.emplace(path);
  }

  bool isStandardOutput() const { return _standard_output; }

  void write(const std::string& text) {
    if (_standard_output) Log::info(text);
    if (!_file) return;
    _file->write(text + "\n");
    _file->commit();
  }

 private:
  bool _standard_output;
  std::optional<OutputFile> _file;
};

} // namespace partita
