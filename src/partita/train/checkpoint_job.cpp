#include "partita/train/checkpoint_job.hpp"

#include "partita/comm/agree.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/error.hpp"
#include "partita/io/output_file.hpp"
#include "partita/io/write_run_file.hpp"
#include "partita/train/run_files.hpp"
#include "partita/train/set_aside.hpp"

#include <algorithm>
#include <filesystem>
#include <sys/stat.h>
#include <type_traits>

namespace partita {

namespace {

namespace fs = std::filesystem;

/// Returns the files that it has removed, newest first.
std::vector<std::string> removeBeyond(std::size_t keep, const std::string& run_directory,
                                      const OwnCheckpoints& own) {
  std::vector<std::string> removed;
  std::error_code ignored;
  std::size_t kept = 0;
  for (const std::string& file : checkpointsIn(run_directory))
    if (own.have(file) && ++kept > keep && fs::remove(file, ignored)) removed.push_back(file);
  return removed;
}

/// Each rank has set its own numbers. Collective; the vectors have the same length on every rank.
void sumOverRanks(const Communicator& comm, RunProgress& progress, std::vector<double>& reports) {
  std::vector<double> all;
  const auto visit = [&](auto&& take) {
    for (const TrafficCounter& counter : traffic_counters) take(progress.traffic.*counter.value);
    for (double* number :
         {&progress.elapsed_seconds, &progress.training_seconds, &progress.evaluation_seconds})
      take(*number);
    for (LossSums& score : progress.scores)
      for (double* number : {&score.loss, &score.correct, &score.rows}) take(*number);
    for (UpdateState& update : progress.updates)
      for (double* number : {&update.steps, &update.loss_scale, &update.clean_steps}) take(*number);
    for (double& number : progress.numbers) take(number);
    for (double& number : reports) take(number);
  };
  visit([&](auto& number) { all.push_back(static_cast<double>(number)); });
  comm.sum(all);
  auto next = all.begin();
  visit([&](auto& number) { number = static_cast<std::remove_reference_t<decltype(number)>>(*next++); });
}

} // namespace

/// Of a link, not of what it leads to: only the link would be removed.
std::optional<OwnCheckpoints::Place> OwnCheckpoints::placeOf(const std::string& path) {
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0) return std::nullopt;
  return Place(found.st_dev, found.st_ino);
}

void OwnCheckpoints::add(const std::string& path) {
  const std::lock_guard<std::mutex> lock(_mutex);
  if (const auto place = placeOf(path)) _places[fs::path(path).filename().string()] = *place;
}

bool OwnCheckpoints::have(const std::string& path) const {
  const std::lock_guard<std::mutex> lock(_mutex);
  const auto known = _places.find(fs::path(path).filename().string());
  return known != _places.end() && placeOf(path) == known->second;
}

void CheckpointJob::copy() {
  for (const Copy& copy : copies) std::copy_n(copy.from.onHost() + copy.begin, copy.size, copy.to);
  state = State::writing;
}

void CheckpointJob::write(const Communicator& comm) {
  const auto begin = Clock::now();
  try {
    collectively(comm, [&] {
      std::error_code error;
      require_place();
      if (comm.rank() == 0) fs::create_directories(fs::path(partial).parent_path(), error);
      if (error) throw UserError(partial + ": " + error.message());
    });
    sumOverRanks(comm, *content.progress, reports);
    writeRunFile(comm, partial, content, compression);
  } catch (const AgreedError& error) {
    failure = error.what();
  } catch (const std::exception& error) {
    endJob(comm.worldRank(comm.rank()), textForUser(error), exit_failure);
  }
  write_seconds = secondsSince(begin);
  state = State::written;
}

void CheckpointJob::publish(const std::string& run_directory, std::size_t keep) {
  const std::string elsewhere = failureOf(require_place);
  if (!elsewhere.empty()) failure = elsewhere;
  if (failure.empty()) failure = failureOf([&] { giveFinalName(run_directory); });
  if (failure.empty())
    failureOf([&] { removed = removeBeyond(keep, run_directory, *own); }); // the next one tries again
  std::error_code ignored;
  if (!failure.empty() && elsewhere.empty()) fs::remove(partial, ignored);
  state = State::named;
}

/// Later checkpoints, of another course, must go first: a run would continue from one of them.
void CheckpointJob::giveFinalName(const std::string& run_directory) {
  for (const std::string& file : growingFilesIn(run_directory)) syncFile(file);
  std::error_code ignored;
  const bool of_other_course = !again && fs::exists(final_name, ignored);
  if (of_other_course) set_aside.push_back(setAside(final_name));
  for (const std::string& path : setAsideLater(run_directory, final_name)) set_aside.push_back(path);
  publishFile(partial, final_name);
  own->add(final_name);
}

} // namespace partita
