#pragma once

#include <CLI/CLI.hpp>

#include "commands.hpp"

namespace partita {

/// What the command line asks for, one struct a subcommand.
struct Arguments {
  TrainArguments train;
  EvaluateArguments evaluate;
  ExportArguments exports;
  InfoArguments info;
  BenchArguments bench;
};

/// Defines all subcommands and options; parsing fills `arguments`, which must outlive the parse.
void defineCommandLine(CLI::App& app, Arguments& arguments);

/// What the parser cannot see: leftovers, and options that depend on each other. Throws AgreedError.
void checkCommandLine(const CLI::App& app, Arguments& arguments);

} // namespace partita
