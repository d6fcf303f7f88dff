#include "partita/config/text.hpp"
#include "partita/plan/cost/cluster_file.hpp"
#include "partita/plan/cost/cluster_rows.hpp"

#include <cmath>
#include <set>

namespace partita {

namespace {

std::string numberText(double value, int digits = 6) {
  return formatted("%.*g", digits, value);
}

/// Part of what a row is found by: two numbers that differ must not become the same.
std::string extentText(double value) {
  return numberText(value, 15);
}

/// The rows that are found: of those with the same identity the first. Calibration with two decks of one name
/// has several.
template <class Row>
std::vector<Row> distinct(const std::vector<Row>& rows) {
  std::set<decltype(identityOf(rows.front()))> known;
  std::vector<Row> first;
  for (const Row& row : rows)
    if (known.insert(identityOf(row)).second) first.push_back(row);
  return first;
}

std::string linkText(const char* section, const LinkTable& table) {
  std::string text;
  if (table.assumed) return text;
  for (const LinkTable::Row& row : table.rows) {
    const std::string ranks =
        row.ranks > 0 && row.ranks < most_ranks ? "ranks = " + std::to_string(row.ranks) + "\n" : "";
    if (row.link.measured.empty())
      text += std::string("\n[[") + section + "]]\n" + ranks + "latency = " + numberText(row.link.latency) +
              "\nbandwidth = " + numberText(1.0 / row.link.seconds_per_byte) + "\n";
    for (const Link::Point& point : row.link.measured)
      text += "\n[[message]]\n" + ranks + "bytes = " + std::to_string(std::llround(point.bytes)) +
              "\nseconds = " + numberText(point.seconds) + "\n";
  }
  return text;
}

/// Names come from host names and file names, which may contain anything.
std::string quotedText(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ' ? '_' : c;
  return quoted + "\"";
}

std::string networkText(const NetworkTiming& network) {
  std::string text = "\n[[network]]\ndeck = " + quotedText(network.deck) +
                     "\nparameters = " + std::to_string(network.parameters) +
                     "\nseconds_per_sample = " + numberText(network.seconds_per_sample) +
                     "\nspatial_layers = " + std::to_string(network.spatial_layers) +
                     "\nbatch = " + std::to_string(network.batch) +
                     "\nseconds_per_update = " + numberText(network.seconds_per_update) + "\n";
  if (network.flops_per_sample > 0.0)
    text += "flops_per_sample = " + extentText(network.flops_per_sample) + "\n";
  if (!network.precision.empty()) text += "precision = " + quotedText(network.precision) + "\n";
  return text;
}

std::string kernelText(const std::vector<KernelRate>& kernels) {
  std::string text;
  for (const KernelRate& kernel : kernels)
    text += "\n[[kernel]]\ntype = " + quotedText(kernel.type) + "\nrows = " + extentText(kernel.rows) +
            "\ninputs = " + extentText(kernel.inputs) + "\noutputs = " + extentText(kernel.outputs) +
            "\nwindow = " + extentText(kernel.window) + "\nforward = " + numberText(kernel.forward) +
            "\nbackward = " + numberText(kernel.backward) + "\n";
  return text;
}

/// The rate of products in 16 bits, if it is known.
std::string rateText(const char* key, double rate) {
  return rate > 0.0 ? std::string("\n") + key + " = " + numberText(rate) : "";
}

} // namespace

std::string clusterText(const Cluster& cluster) {
  const Contention& phi = cluster.contention;
  std::string text =
      "[cluster]\nname = " + quotedText(cluster.name) + "\nsource = " + quotedText(cluster.source) +
      "\n\n[node]\nranks = " + std::to_string(cluster.node_ranks) +
      "\nat_once = " + std::to_string(cluster.node_at_once) +
      "\ncables = " + std::to_string(cluster.node_cables) + "\nmemory = " + numberText(cluster.memory, 15) +
      "\n\n[compute]\nflops = " + numberText(cluster.flops) + rateText("bf16_flops", cluster.bf16_flops) +
      rateText("fp16_flops", cluster.fp16_flops) +
      "\nseconds_per_update = " + numberText(cluster.seconds_per_update) +
      "\nseconds_per_reduced_byte = " + numberText(cluster.seconds_per_reduced_byte) +
      "\nseconds_per_copied_byte = " + numberText(cluster.seconds_per_copied_byte) +
      "\nhalf_size = " + numberText(cluster.half_size) + "\noverlap = " + numberText(cluster.overlap) +
      "\n\n[offload]\nhost_bandwidth = " + numberText(cluster.host_bandwidth) +
      "\nfile_bandwidth = " + numberText(cluster.file_bandwidth) +
      "\ndevice = " + (cluster.device ? "true" : "false") +
      "\n\n[contention]\ndata_filter_inside = " + numberText(phi.data_filter_inside) +
      "\ndata_filter = " + numberText(phi.data_filter) + "\nhalo = " + numberText(phi.halo) +
      "\ngather = " + numberText(phi.gather) + "\nleaders = " + numberText(phi.leaders) + "\n";
  for (const NetworkTiming& network : distinct(cluster.networks)) text += networkText(network);
  for (const WorkerTiming& worker : distinct(cluster.workers))
    text += "\n[[worker]]\ndeck = " + quotedText(worker.deck) + "\nrank = " + std::to_string(worker.rank) +
            "\noverhead = " + numberText(worker.overhead) +
            "\nsamples_per_second = " + numberText(worker.samples_per_second) + "\n";
  for (const Concurrency& row : cluster.concurrency)
    text += "\n[[concurrency]]\nranks = " + std::to_string(row.ranks) +
            "\nfactor = " + numberText(row.factor) + "\n";
  return text + kernelText(cluster.kernels) + linkText("link", cluster.links) +
         linkText("staged_link", cluster.staged);
}

} // namespace partita
