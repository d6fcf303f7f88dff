#include "partita/train/history.hpp"

#include <filesystem>
#include <limits>

#include "data_files.hpp"
#include "support/catch.hpp"
#include "support/file_size_limit.hpp"

namespace partita::test::train_history {

namespace {

const std::string header = "time_s,event,stage,epoch,step,run_step,loss,learning_rate,samples_per_second,"
                           "grad_norm,train_accuracy,accuracy,accuracy_alone\n";

} // namespace

TEST_CASE("The history has a row a report, and a row a stage at each evaluation", "[train]") {
  const ScratchFolder folder;
  HistoryFile history(folder.path("history.csv"));
  StepReport step;
  step.stage = 2;
  step.epoch = 1;
  step.step = 100;
  step.run_step = 300;
  step.loss = 0.5;
  step.accuracy = 0.75;
  step.learning_rate = 0.001;
  step.samples_per_second = 2000.0;
  step.gradient_norm = 1.5;
  history.add(1.25, step);
  step.accuracy = -1.0; // the loss does not decode
  step.stage = 0;       // the joined network
  history.add(1.5, step);
  EvaluationReport evaluation;
  evaluation.stage = 2;
  evaluation.epoch = 1;
  evaluation.step = 100;
  evaluation.run_step = 300;
  evaluation.stage_accuracy = {0.5, 0.8};
  evaluation.stage_loss = {2.0, 0.25};
  evaluation.joined = true;
  history.add(2.0, evaluation);
  CHECK(folder.read("history.csv") == header +
                                          "1.25,step,2,1,100,300,0.5,0.001,2000,1.5,75,,\n"
                                          "1.5,step,joined,1,100,300,0.5,0.001,2000,1.5,,,\n"
                                          "2,evaluation,1,1,100,300,2,,,,,50,\n"
                                          "2,evaluation,joined,1,100,300,0.25,,,,,80,\n"); // written at once
}

TEST_CASE("Steps that were all skipped have no loss", "[train]") {
  const ScratchFolder folder;
  HistoryFile history(folder.path("history.csv"));
  StepReport step;
  step.stage = step.epoch = step.step = step.run_step = 1;
  step.loss = std::numeric_limits<double>::quiet_NaN();
  step.accuracy = step.gradient_norm = -1.0;
  step.learning_rate = 0.5;
  step.samples_per_second = 2.0;
  history.add(1.0, step);
  CHECK(folder.read("history.csv") == header + "1,step,1,1,1,1,,0.5,2,,,,\n");
}

TEST_CASE("A stage that is not the last one keeps its number in an evaluation", "[train]") {
  const ScratchFolder folder;
  HistoryFile history(folder.path("history.csv"));
  EvaluationReport evaluation;
  evaluation.stage_accuracy = {0.5};
  evaluation.stage_loss = {2.0};
  history.add(0.0, evaluation);
  CHECK(folder.read("history.csv") == header + "0,evaluation,1,0,0,0,2,,,,,50,\n");
}

TEST_CASE("The history has what each stage predicts by itself if exits add up", "[train]") {
  const ScratchFolder folder;
  HistoryFile history(folder.path("history.csv"));
  EvaluationReport evaluation;
  evaluation.stage_accuracy = {0.5, 0.75};
  evaluation.stage_alone = {0.5, 0.25};
  evaluation.stage_loss = {2.0, 1.0};
  evaluation.joined = true;
  history.add(0.0, evaluation);
  CHECK(folder.read("history.csv") == header + "0,evaluation,1,0,0,0,2,,,,,50,50\n"
                                               "0,evaluation,joined,0,0,0,1,,,,,75,25\n");
}

TEST_CASE("A continued history keeps the whole rows up to its step", "[train]") {
  const ScratchFolder folder;
  const std::string before = "1.5,step,1,1,7,7,0.5,0.001,2000,1.5,75,,\n",
                    same = "4.5,step,2,1,9,9,0.5,0.001,,,,,\n",
                    later = "3,step,1,1,10,10,0.5,0.001,2000,1.5,,,\n", cut = "3.5,step,2,1,8,8,0.5";
  const std::string path = folder.write("history.csv", header + before + later + same + cut);
  {
    HistoryFile history(path, 9);
    CHECK(history.lastTime() == 4.5);
    StepReport report;
    report.stage = 1;
    report.step = report.run_step = 10;
    history.add(5.0, report);
  }
  CHECK(folder.read("history.csv") == header + before + same + "5,step,1,0,10,10,0,0,0,0,,,\n");
  HistoryFile{path}; // from the beginning
  CHECK(folder.read("history.csv") == header);
}

TEST_CASE("A table that another program has changed is set aside, not cut down", "[train]") {
  const std::string row = "1.5,step,1,1,7,7,0.5,0.001,2000,1.5,75,,\n";
  for (const std::string& found : {std::string("time_s,event,stage,loss\n1,step,1,0.5\n"), // other columns
                                   header + row + "2,step,1,0.5\n" + row,                  // an edited row
                                   header.substr(0, header.size() - 1) + "\r\n" + row}) {
    const ScratchFolder folder;
    const std::string path = folder.write("history.csv", found);
    HistoryFile{path, 9};
    CHECK(folder.read("history.csv.superseded") == found);
    CHECK(folder.read("history.csv").substr(0, header.size()) == header);
    HistoryFile{path, 9}; // what it has written itself is kept
    CHECK_FALSE(std::filesystem::exists(folder.path("history.csv.superseded-2")));
  }
}

TEST_CASE("A table whose rows are swapped or repeated is set aside", "[train]") {
  const std::string a = "1.5,step,1,1,7,7,0.5,0.001,2000,1.5,75,,\n",
                    b = "1.5,step,2,1,7,7,0.5,0.001,2000,1.5,75,,\n",
                    c = "9.5,step,2,1,8,8,0.5,0.001,2000,1.5,75,,\n",
                    d = "10.25,step,1,1,6,6,0.5,0.001,2000,1.5,75,,\n"; // a stage that is behind
  const auto keptOf = [](const std::string& rows) {
    const ScratchFolder folder;
    const std::string path = folder.write("history.csv", header + rows);
    HistoryFile{path, 9};
    const bool aside = std::filesystem::exists(folder.path("history.csv.superseded"));
    if (aside) CHECK(folder.read("history.csv.superseded") == header + rows);
    HistoryFile{path, 9}; // what it has written itself is kept
    CHECK_FALSE(std::filesystem::exists(folder.path("history.csv.superseded-2")));
    return (aside ? "aside: " : "") + folder.read("history.csv").substr(header.size());
  };
  CHECK(keptOf(a + b + c + d) == a + b + c + d);
  CHECK(keptOf(a + b + d + c) == "aside: " + a + b + d);
  CHECK(keptOf(a + b + a + c + d) == "aside: " + a + b + c + d);
  CHECK(keptOf(a + b + c + c + d) == "aside: " + a + b + c + d);
  CHECK(keptOf(a + b + c + d + a) == "aside: " + a + b + c + d);
  CHECK(keptOf("inf" + a.substr(3) + b + c) == "aside: " + b + c);
}

TEST_CASE("Rows that cannot be written are kept until they can", "[train]") {
  const ScratchFolder folder;
  const std::string path = folder.path("history.csv");
  HistoryFile history(path);
  StepReport report;
  report.stage = 1;
  {
    const FileSizeLimit full(header.size() + 20); // in the middle of the first row
    for (report.step = report.run_step = 1; report.step <= 3; report.run_step = ++report.step)
      history.add(1.0, report);
    CHECK(messageOf([&] { history.flush(); }) == path + ": cannot be written: File too large");
  }
  history.add(1.0, report);
  std::string rows;
  for (const char step : {'1', '2', '3', '4'})
    rows += std::string("1,step,1,0,") + step + "," + step + ",0,0,0,0,,,\n";
  CHECK(folder.read("history.csv") == header + rows);
  CHECK(messageOf([&] { history.flush(); }).empty());
}

TEST_CASE("A history is synchronised by the file that its rows are in", "[train]") {
  const ScratchFolder folder;
  const std::string path = folder.path("history.csv");
  HistoryFile history(path);
  std::filesystem::permissions(path, std::filesystem::perms::owner_write); // it need not be readable
  CHECK(messageOf([&] { history.synchronise(); }).empty());
  std::filesystem::remove(path);
  std::filesystem::create_symlink(folder.path("nothing"), path); // a warning, no failure
  CHECK(messageOf([&] { history.synchronise(); }).empty());
}

TEST_CASE("A history that cannot be written is refused", "[train]") {
  CHECK(messageOf([] { HistoryFile("/nowhere/at/all/history.csv"); }) ==
        "/nowhere/at/all/history.csv: cannot be written: No such file or directory");
}

} // namespace partita::test::train_history
