#include "partita/strategy/hogbatch/decisions.hpp"

#include "partita/config/files.hpp"
#include "partita/config/number_words.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/log.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace partita {

namespace {

const char* const columns =
    "number,worker,epoch,first,count,row,total,read,applied,rate,decay,in_place,check";

/// The row ends with a check word, computed from this row and the whole row before it, so that no row can be
/// changed or removed unnoticed. Rows that a full disk kept out of the file are not detected here, because
/// the next row refers to the last row in the file. A replay ends before the first missing update.
std::string withCheck(const std::string& before, const std::string& numbers) {
  return numbers + ',' + checkWord(before + numbers);
}

std::string numbersOf(const Decision& d) {
  return formatted(
      "%lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%.17g,%.17g,%d", static_cast<long long>(d.number),
      static_cast<long long>(d.worker), static_cast<long long>(d.epoch), static_cast<long long>(d.first),
      static_cast<long long>(d.count), static_cast<long long>(d.row), static_cast<long long>(d.total),
      static_cast<long long>(d.read), static_cast<long long>(d.applied), d.rate, d.decay, d.in_place ? 1 : 0);
}

bool readNumbers(const std::string& numbers, Decision& d) {
  constexpr std::int64_t most = 1 << 24; // samples, as strategy/upper; and workers
  std::istringstream in(numbers);
  in >> std::noskipws;
  char comma = ',';
  for (std::int64_t* number :
       {&d.number, &d.worker, &d.epoch, &d.first, &d.count, &d.row, &d.total, &d.read, &d.applied}) {
    if (comma != ',' || !(in >> *number >> comma)) return false;
  }
  int in_place = 0;
  char second = 0, third = 0;
  if (comma != ',' || !(in >> d.rate >> second >> d.decay >> third >> in_place)) return false;
  d.in_place = in_place != 0;
  const bool fits = d.number >= 0 && d.worker >= 0 && d.worker <= most && d.epoch >= 0 &&
                    d.epoch <= most_run_steps && d.first >= 0 && d.first <= most_run_steps * most &&
                    d.count > 0 && d.count <= most && d.row >= 0 && d.row <= d.total - d.count &&
                    d.read >= 0 && d.rate >= 0.0 && d.decay >= 0.0;
  return fits && second == ',' && third == ',' && in.peek() == std::istringstream::traits_type::eof();
}

/// The decisions of the first `version` updates. One whose update was dropped is kept only if a kept update
/// follows.
std::vector<Decision> decisionsBefore(const std::string& path, std::int64_t version) {
  if (version == 0) return {};
  std::vector<Decision> kept;
  std::size_t certain = 0;
  for (const Decision& decision : readDecisions(path)) {
    if (decision.applied >= version) continue;
    kept.push_back(decision);
    if (decision.applied >= 0) certain = kept.size();
  }
  kept.resize(certain);
  return kept;
}

/// Removes an incomplete row, which a full disk may have left at the end. Returns the row before it, to which
/// the next one refers.
std::string cutToWholeRows(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw UserError(path + ": cannot be read: " + std::strerror(errno));
  std::string row, last;
  std::uintmax_t bytes = 0;
  while (std::getline(file, row) && !file.eof()) {
    bytes += row.size() + 1;
    last.swap(row);
  }
  if (file.bad()) failFile(path, "cannot be read", errno);
  std::error_code error;
  std::filesystem::resize_file(path, bytes, error);
  if (error) failFile(path, "cannot be written", error.value());
  return last;
}

} // namespace

DecisionLog::DecisionLog(const std::string& path, std::int64_t version, bool goes_on) {
  if (goes_on && regularFileExists(path)) {
    _last = cutToWholeRows(path);
    _file = std::make_unique<GrowingFile>(path);
    return;
  }
  if (goes_on) Log::warning(path + ": was removed or replaced during the run; its rows are lost");
  _last = columns;
  std::string rows = _last + '\n';
  for (const Decision& decision : decisionsBefore(path, goes_on ? 0 : version)) rows += nextRow(decision);
  _file = std::make_unique<GrowingFile>(path, rows);
}

std::string DecisionLog::nextRow(const Decision& decision) {
  _last = withCheck(_last, numbersOf(decision));
  return _last + '\n';
}

void DecisionLog::add(const Decision& decision) {
  constexpr std::size_t block = 1 << 13; // a call of the system for each row would take time
  _rows += nextRow(decision);
  if (_rows.size() < block) return;
  _file->append(_rows);
  _rows.clear();
}

void DecisionLog::flush() {
  _file->append(_rows);
  _rows.clear();
  _file->flush();
}

void DecisionLog::synchronise() {
  _file->append(_rows);
  _rows.clear();
  _file->synchronise();
}

void repeatDecisions(RunConfig& deck, const std::string& path) {
  HogbatchSection& section = deck.strategy.hogbatch;
  section.replay = path;
  // A run that was continued with a smaller strategy/upper may have had larger batches than its deck allows.
  for (const Decision& one : readDecisions(path))
    section.replay_batch = std::max(section.replay_batch, one.count);
}

bool changeAlike(const RunConfig& one, const RunConfig& other) {
  const HogbatchSection &a = one.strategy.hogbatch, &b = other.strategy.hogbatch;
  return a.merge == b.merge && a.update == b.update;
}

std::vector<Decision> readDecisions(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw UserError(path + ": cannot be read: " + std::strerror(errno));
  std::string row, before;
  const auto next = [&] {
    before.swap(row);
    const bool found = static_cast<bool>(std::getline(file, row));
    if (file.bad()) failFile(path, "cannot be read", errno);
    return found;
  };
  if (!next() || row != columns)
    throw UserError(path + ": is not a decisions.csv of a run with run/decisions = true");
  std::vector<Decision> decisions;
  for (std::int64_t line = 2; next(); ++line) {
    const std::string numbers = row.substr(0, row.rfind(','));
    Decision decision;
    const bool valid = readNumbers(numbers, decision), unchanged = row == withCheck(before, numbers);
    if ((!valid || !unchanged) && file.eof()) break; // a run that was killed has left half a row
    if (!valid) throw UserError(path + ":" + std::to_string(line) + ": is not a decision");
    if (!unchanged)
      throw UserError(path + ":" + std::to_string(line) +
                      ": was changed, or the row before it was changed or removed");
    decisions.push_back(decision);
  }
  return decisions;
}

} // namespace partita
