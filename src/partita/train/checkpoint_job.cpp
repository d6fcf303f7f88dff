#include "partita/train/checkpoint_job.hpp"

#include "partita/comm/agree.hpp"
#include "partita/comm/end_job.hpp"
#include "partita/config/user_error.hpp"
#include "partita/io/durable.hpp"
#include "partita/train/run_files.hpp"

#include <algorithm>
#include <filesystem>

namespace partita {

namespace {

namespace fs = std::filesystem;

void removeBeyond(std::size_t keep, const std::string& run_directory) {
  const std::vector<std::string> files = checkpointsIn(run_directory);
  std::error_code ignored;
  for (std::size_t i = keep; i < files.size(); ++i) fs::remove(files[i], ignored);
}

} // namespace

void CheckpointJob::copy() {
  for (const Copy& copy : copies) std::copy_n(copy.from.onHost() + copy.begin, copy.size, copy.to);
  state = State::writing;
}

/// The sums over all ranks are told apart.
void CheckpointJob::sortNumbers(int ranks) {
  RunProgress& progress = *content.progress;
  const auto number = [&](std::size_t i) { return static_cast<std::int64_t>(numbers[i]); };
  progress.traffic = {number(0), number(1), number(2)};
  progress.elapsed_seconds = numbers[3];
  progress.training_seconds = numbers[4];
  progress.evaluation_seconds = numbers[5];
  const auto first = numbers.begin() + numbers_before_scores, sent = numbers.end() - ranks,
             updates = sent - 3 * progress.stages;
  progress.scores.assign(first, updates);
  progress.updates.assign(updates, sent);
  reports.assign(sent, numbers.end());
}

void CheckpointJob::write(const Communicator& comm) {
  const auto begin = std::chrono::steady_clock::now();
  try {
    collectively(comm, [&] {
      std::error_code error;
      if (comm.rank() == 0) fs::create_directories(fs::path(partial).parent_path(), error);
      if (error) throw UserError(partial + ": " + error.message());
    });
    comm.sum(numbers);
    sortNumbers(comm.size());
    writeRunFile(comm, partial, content, compression);
  } catch (const AgreedError& error) {
    failure = error.what();
  } catch (const std::exception& error) {
    endJob(comm.rank(), error.what(), 1);
  }
  write_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  state = State::written;
}

void CheckpointJob::publish(const std::string& run_directory, const std::string& history, std::size_t keep) {
  if (failure.empty()) {
    failure = failureOf([&] {
      syncFile(history);
      std::error_code ignored;
      if (fs::exists(final_name, ignored)) set_aside.push_back(setAside(final_name)); // of an earlier course
      publishFile(partial, final_name);
      for (const std::string& path : setAsideLater(run_directory, final_name)) set_aside.push_back(path);
      removeBeyond(keep, run_directory);
    });
  }
  std::error_code ignored;
  if (!failure.empty()) fs::remove(partial, ignored);
  state = State::named;
}

} // namespace partita
