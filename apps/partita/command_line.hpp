#pragma once

#include <CLI/CLI.hpp>

#include "commands.hpp"

namespace partita {

/// What the command line requests, one struct per subcommand.
struct Arguments {
  TrainArguments train;
  EvaluateArguments evaluate;
  ExportArguments exports;
  InfoArguments info;
  BenchArguments bench;
  PredictArguments predict;
  DeckArguments deck;
  ScheduleArguments schedule;
  PlaceArguments place;
  SearchArguments search;
  CalibrateArguments calibrate;
};

/// Defines all subcommands and options; parsing fills `arguments`, which must outlive the parse.
void defineCommandLine(CLI::App& app, Arguments& arguments);

/// "; see `partita train --help`": the end of a message about the command line.
std::string helpHint(const CLI::App& app);

/// Checks what the parser cannot: leftovers, and options that depend on each other. Throws UserError.
void checkCommandLine(const CLI::App& app, Arguments& arguments);

/// The command and all its arguments as one text: the same on all ranks of a job.
std::string essence(const CLI::App& app, const Arguments& arguments);

/// Prints the page requested in `info`; returns false if none was requested.
bool showPage(const CLI::App& app, const InfoArguments& arguments);

} // namespace partita
