#pragma once

#include "partita/core/log.hpp"
#include "partita/io/json.hpp"
#include "partita/io/output_file.hpp"

#include <optional>
#include <string>

namespace partita {

/// Where `--json` sends a result: a file, standard output ("-"), or nowhere (""). It is made first, so that a
/// bad path is reported before the work.
class ResultFile {
 public:
  /// Throws UserError if the file is the input or cannot be written.
  ResultFile(const std::string& path, const std::string& input) : _standard_output(path == "-") {
    if (path.empty() || _standard_output) return;
    refuseInput(path, {input});
    _file.emplace(path);
  }

  bool isStandardOutput() const { return _standard_output; }

  void write(const JsonObject& result) {
    if (_standard_output) Log::info(result.text());
    if (!_file) return;
    _file->write(result.text() + "\n");
    _file->commit();
  }

 private:
  bool _standard_output;
  std::optional<OutputFile> _file;
};

} // namespace partita
