#include "partita/config/text.hpp"
#include "partita/core/provenance.hpp"

#include "command_pages.hpp"

namespace partita {

namespace {

const std::vector<Term>& environment() {
  static const std::vector<Term> variables{
      {"OMP_NUM_THREADS, KOKKOS_NUM_THREADS",
       "threads per rank; default: one for each core that the launcher assigns to the rank"},
      {"OMP_PROC_BIND, OMP_PLACES", "where OpenMP puts its threads"},
      {"KOKKOS_TOOLS_LIBS", "profiling library to load; before Kokkos 3.7 `KOKKOS_PROFILE_LIBRARY`"},
      {"OPENBLAS_CORETYPE", "kernels of OpenBLAS; set `SkylakeX` if OpenBLAS does not know the processor"},
      {"TMPDIR", "folder for stored activations and optimiser state if there is no run directory, and for "
                 "results that are then copied to a pipe (unset or empty: /tmp)"}};
  return variables;
}

const std::vector<Term>& runFiles() {
  static const std::vector<Term> files{
      {"deck.toml", "the effective deck: every key with the value that was used; it can be run again"},
      {"history.csv", "loss, learning rate and accuracies during training"},
      {"workers.csv", "strategy/kind 'hogbatch': batches, updates and shares of the workers during training"},
      {"decisions.csv", "run/decisions: the log from which `--replay` repeats the run"},
      {"trace.json", "run/trace: the operations of each rank in the first steps of a pipeline"},
      {"summary.json", "the result, times, traffic, memory and provenance"},
      {"parameters.h5", "the trained network"},
      {"checkpoints/step-*.h5", "checkpoints; `-r latest` continues from the newest one"},
      {"output_now", "create this file to request a checkpoint of a run in progress"}};
  return files;
}

const std::vector<Term>& signals() {
  static const std::vector<Term> list{
      {"SIGTERM, SIGINT, SIGHUP", "write a checkpoint and end with exit code 75"},
      {"SIGUSR1", "write a checkpoint and continue"}};
  return list;
}

const std::vector<Term>& examples() {
  static const std::vector<Term> list{
      {"partita train deck.toml -n --ranks 4",
       "Check deck and data and show what each of 4 ranks would hold."},
      {"mpirun -n 4 partita train deck.toml -d run run/seed=3", "Train on 4 ranks, with another seed."},
      {"mpirun -n 4 partita train deck.toml -d run -r latest -t 3:50:00",
       "Continue where the last call stopped, or start; stop after 3 hours and 50 minutes."},
      {"partita evaluate run", "Accuracy on the test set."},
      {"partita export run -o network.onnx", "Write the network for other programs."}};
  return list;
}

/// Text escaped for roff; text between backticks becomes bold.
std::string roff(const std::string& text) {
  std::string page = replaced(replaced(text, "\\", "\\e"), "-", "\\-");
  if (!page.empty() && (page.front() == '.' || page.front() == '\'')) page.insert(0, "\\&");
  for (std::size_t at = 0, count = 0; (at = page.find('`', at)) != std::string::npos; ++count)
    page.replace(at, 1, count % 2 == 0 ? "\\fB" : "\\fR");
  return page;
}

std::string bold(const std::string& text) {
  return "\\fB" + roff(text) + "\\fR";
}

/// Flags and literal alternatives of a value in bold, names of values in italics.
std::string title(const OptionPage& option) {
  std::string page;
  for (const std::string& flag : option.flags) page += (page.empty() ? "" : ", ") + bold(flag);
  std::string value;
  for (const std::string& part : split(option.value, '|'))
    value += (value.empty() ? "" : "|") + (isLiteral(part) ? bold(part) : "\\fI" + roff(part) + "\\fR");
  return page + (page.empty() || value.empty() ? "" : " ") + value + (option.repeated ? " ..." : "");
}

std::string tagged(const std::string& tag, const std::string& text) {
  return ".TP\n" + tag + "\n" + roff(text) + "\n";
}

std::string section(const std::string& name, const std::string& text, const std::vector<Term>& list) {
  std::string page = ".SH " + name + "\n" + (text.empty() ? "" : text + "\n");
  for (const Term& term : list) page += tagged(bold(term.word), term.text);
  return page;
}

std::string commandSection(const CommandPage& command) {
  std::string page = ".SS " + command.name + "\n.B partita " + roff(command.usage()) + "\n.PP\n" +
                     roff(command.text) + ".\n";
  for (const OptionPage& operand : command.operands) page += tagged(title(operand), operand.text);
  for (const OptionPage& option : command.options)
    if (option.flags.back() != "--help") page += tagged(title(option), option.text);
  return page;
}

} // namespace

std::string manPage(const ProgramPages& pages) {
  std::string page = ".\\\" Made by `partita info --man`.\n.TH PARTITA 1 \"\" \"Partita " + versionString() +
                     "\" \"User Commands\"\n.SH NAME\npartita \\- train neural networks partitioned over MPI "
                     "ranks\n.SH SYNOPSIS\n";
  for (const CommandPage& command : pages.commands) page += ".B partita " + roff(command.usage()) + "\n.br\n";
  page += "[\\fBmpirun \\-n\\fR \\fIRANKS\\fR] \\fBpartita\\fR ...\n.SH DESCRIPTION\n" +
          roff(pages.program.text) +
          "\nA deck is a TOML file that defines data, network and training; any of its values can be "
          "replaced on the\ncommand line as \\fIsection/key=value\\fR.\n" +
          roff("`partita info --deck` prints all keys.\n") +
          "Flags that begin with \\fB\\-\\-kokkos\\-\\fR go to Kokkos.\n.SH COMMANDS\n";
  for (const CommandPage& command : pages.commands) page += commandSection(command);
  page += ".SH OPTIONS\n";
  for (const OptionPage& option : pages.program.options) page += tagged(title(option), option.text);
  page += section("EXIT STATUS", "", exitCodes()) + section("SIGNALS", "During training:", signals()) +
          section("ENVIRONMENT", "", environment()) + section("FILES", "In a run directory:", runFiles()) +
          section("EXAMPLES", "", examples()) + ".SH SEE ALSO\n.BR mpirun (1),\n.BR h5dump (1)\n";
  return page;
}

} // namespace partita
