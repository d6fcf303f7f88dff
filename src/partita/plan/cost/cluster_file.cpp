#include "partita/plan/cost/cluster_file.hpp"

#include "partita/config/files.hpp"
#include "partita/config/layer_types.hpp"
#include "partita/config/names.hpp"
#include "partita/config/section_reader.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/plan/cost/cluster_rows.hpp"
#include "partita/plan/cost/layer_cost.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <tuple>

namespace partita {

namespace {

// Ranges that every machine fits into, and in which no prediction overflows.
constexpr Interval rates{1.0, 1e18}, times{0.0, 1e9}, measured_times{1e-18, 1e9}, sizes{0.0, 1e18},
    extents{0.0, 1e18, true}, factors{1e-6, 1e9}, flows{1.0, 1e9};

/// A row of [[link]] or [[staged_link]].
struct LinkRow {
  std::int64_t ranks = most_ranks;
  double latency = 0.0, bandwidth = 0.0;
};

/// A row of [[message]]: a measured time.
struct MessageRow {
  std::int64_t ranks = most_ranks;
  double bytes = 0.0, seconds = 0.0;
};

Section describe(LinkRow& row) {
  Section section{"link", ""};
  section.add("ranks", &row.ranks, within(1, most_ranks), "ranks", "");
  section.add("latency", &row.latency, times, "seconds", "");
  section.add("bandwidth", &row.bandwidth, rates, "bytes per second", "").required = Required::always;
  return section;
}

Section describe(MessageRow& row) {
  Section section{"message", ""};
  section.add("ranks", &row.ranks, within(1, most_ranks), "ranks", "");
  section.add("bytes", &row.bytes, within(1, 1e18), "bytes", "").required = Required::always;
  section.add("seconds", &row.seconds, measured_times, "seconds", "").required = Required::always;
  return section;
}

/// A text that must be one of these names.
Choice oneOf(std::string& text, const std::vector<std::string>& names) {
  const auto get = [&text, names] {
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), text) - names.begin());
  };
  return {names, get, [&text, names](std::size_t index) { text = names[index]; }};
}

Section describe(NetworkTiming& row) {
  Section section{"network", ""};
  section.add("deck", &row.deck, "").required = Required::always;
  section.add("parameters", &row.parameters, atLeast(0), "parameters", "");
  section.add("seconds_per_sample", &row.seconds_per_sample, times, "seconds", "");
  section.add("spatial_layers", &row.spatial_layers, atLeast(0), "layers", "");
  section.add("batch", &row.batch, atLeast(0), "samples", "");
  section.add("seconds_per_update", &row.seconds_per_update, times, "seconds per parameter", "");
  section.add("flops_per_sample", &row.flops_per_sample, sizes, "FLOPs", "");
  section.add("precision", oneOf(row.precision, namesOf<Precision>()), "");
  return section;
}

Section describe(KernelRate& row) {
  Section section{"kernel", ""};
  section.add("type", oneOf(row.type, layerTypes().names()), "").required = Required::always;
  section.add("rows", &row.rows, extents, "rows", "");
  section.add("inputs", &row.inputs, extents, "values", "");
  section.add("outputs", &row.outputs, extents, "values", "");
  section.add("window", &row.window, extents, "positions", "");
  section.add("forward", &row.forward, rates, "per second", "").required = Required::always;
  section.add("backward", &row.backward, rates, "per second", "").required = Required::always;
  return section;
}

Section describe(Concurrency& row) {
  Section section{"concurrency", ""};
  section.add("ranks", &row.ranks, within(1, most_ranks), "ranks", "").required = Required::always;
  section.add("factor", &row.factor, factors, "times as long", "").required = Required::always;
  return section;
}

Section describe(WorkerTiming& row) {
  Section section{"worker", ""};
  section.add("deck", &row.deck, "").required = Required::always;
  section.add("rank", &row.rank, within(0, most_ranks), "", "").required = Required::always;
  section.add("overhead", &row.overhead, times, "seconds", "");
  section.add("samples_per_second", &row.samples_per_second, within(1e-9, 1e18), "samples per second", "")
      .required = Required::always;
  return section;
}

std::vector<Section> describe(Cluster& cluster) {
  Section about{"cluster", ""}, node{"node", ""}, compute{"compute", ""}, offload{"offload", ""},
      contention{"contention", ""};
  about.add("name", &cluster.name, "");
  about.add("source", &cluster.source, "");
  node.add("ranks", &cluster.node_ranks, within(1, most_ranks), "ranks", "");
  node.add("at_once", &cluster.node_at_once, within(0, most_ranks), "ranks", "");
  node.add("cables", &cluster.node_cables, within(1, most_ranks), "cables", "");
  node.add("memory", &cluster.memory, sizes, "bytes per rank", "");
  compute.add("flops", &cluster.flops, rates, "per second and rank", "");
  compute.add("bf16_flops", &cluster.bf16_flops, rates, "per second and rank", "");
  compute.add("fp16_flops", &cluster.fp16_flops, rates, "per second and rank", "");
  compute.add("seconds_per_update", &cluster.seconds_per_update, times, "seconds per parameter", "");
  compute.add("seconds_per_reduced_byte", &cluster.seconds_per_reduced_byte, times, "seconds", "");
  compute.add("seconds_per_copied_byte", &cluster.seconds_per_copied_byte, times, "seconds", "");
  compute.add("half_size", &cluster.half_size, within(0, 1e9), "rows or values", "");
  compute.add("overlap", &cluster.overlap, within(0, 1), "of the time of messages", "");
  offload.add("host_bandwidth", &cluster.host_bandwidth, rates, "bytes per second", "");
  offload.add("file_bandwidth", &cluster.file_bandwidth, rates, "bytes per second", "");
  offload.add("device", &cluster.device, "");
  Contention& phi = cluster.contention;
  for (const auto& [key, field] :
       {std::pair<const char*, double*>{"data_filter_inside", &phi.data_filter_inside},
        {"data_filter", &phi.data_filter},
        {"halo", &phi.halo},
        {"gather", &phi.gather},
        {"leaders", &phi.leaders}})
    contention.add(key, field, flows, "flows", "");
  return {about, node, compute, offload, contention};
}

// What tells the rows of a section apart: what they are found by, not what has been measured.
auto identityOf(const LinkRow& row) {
  return std::tuple(row.ranks);
}
auto identityOf(const MessageRow& row) {
  return std::tuple(row.ranks, std::llround(row.bytes));
}

class ClusterReader {
 public:
  explicit ClusterReader(const std::string& name) : _file(name), _reader(name) {
    _cluster.name.clear();
    _cluster.source.clear();
  }

  Cluster read(const std::string& text) {
    const std::vector<TomlNode> sections = _reader.parse(text);
    for (const TomlNode& node : sections) readSection(node);
    _reader.throwIfAny();
    for (const auto& check : _checks) check();
    _reader.throwIfAny();
    if (_cluster.name.empty()) _cluster.name = std::filesystem::path(_file).stem().string();
    if (_cluster.source.empty()) _cluster.source = _file;
    if (!_links.empty()) _cluster.links = tableOf(_links);
    if (!_messages.empty()) _cluster.links = measuredTable();
    _cluster.staged = tableOf(_staged);
    std::stable_sort(_cluster.concurrency.begin(), _cluster.concurrency.end(),
                     [](const auto& a, const auto& b) { return a.ranks < b.ranks; });
    return _cluster;
  }

 private:
  void readSection(const TomlNode& node) {
    if (node.key == "link") return readRows(node, _links, "`ranks`");
    if (node.key == "staged_link") return readRows(node, _staged, "`ranks`");
    if (node.key == "message") {
      readRows(node, _messages, "`ranks` and `bytes`");
      _checks.push_back([this, &node] { refuseDecreasing(node); });
      return;
    }
    if (node.key == "network")
      return readRows(node, _cluster.networks, "`deck`, `parameters`, `flops_per_sample` and `precision`");
    if (node.key == "worker") return readRows(node, _cluster.workers, "`deck` and `rank`");
    if (node.key == "kernel")
      return readRows(node, _cluster.kernels, "`type`, `rows`, `inputs`, `outputs` and `window`");
    if (node.key == "concurrency") return readRows(node, _cluster.concurrency, "`ranks`");
    std::vector<std::string> names{"link",   "staged_link", "message",    "network",
                                   "worker", "kernel",      "concurrency"};
    for (const Section& section : describe(_cluster)) {
      if (section.name == node.key) return _reader.readKeys(node, section, section.name);
      names.push_back(section.name);
    }
    _reader.unknownSection(node, names);
  }

  static std::string nameOfRow(const TomlNode& node, std::size_t row) {
    return node.key + "[" + std::to_string(row) + "]";
  }

  /// `keys`: those of `identityOf`, for messages.
  template <class Row>
  void readRows(const TomlNode& node, std::vector<Row>& rows, const std::string& keys) {
    _reader.readRows(node, rows, describe);
    // Later, because wrong rows keep defaults, which are alike.
    _checks.push_back([this, &node, &rows, keys] { refuseRepeated(node, rows, keys); });
  }

  template <class Row>
  void refuseRepeated(const TomlNode& node, const std::vector<Row>& rows, const std::string& keys) {
    std::map<decltype(identityOf(rows.front())), std::size_t> known;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto [earlier, added] = known.emplace(identityOf(rows[i]), i);
      if (added) continue;
      _reader.error(node.children[i], nameOfRow(node, i),
                    "has the same " + keys + " as " + nameOfRow(node, earlier->second) +
                        "; change or remove one of the rows");
    }
  }

  /// A larger message must not take less time than a smaller one in a ring of as many ranks.
  void refuseDecreasing(const TomlNode& node) {
    std::vector<std::size_t> order(_messages.size());
    std::iota(order.begin(), order.end(), 0);
    const auto place = [&](std::size_t row) {
      return std::tuple(_messages[row].ranks, _messages[row].bytes);
    };
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return place(a) < place(b); });
    for (std::size_t i = 1; i < order.size(); ++i) {
      const MessageRow &smaller = _messages[order[i - 1]], &larger = _messages[order[i]];
      if (larger.ranks != smaller.ranks || larger.bytes == smaller.bytes || larger.seconds >= smaller.seconds)
        continue;
      _reader.error(node.children[order[i]], nameOfRow(node, order[i]),
                    "is of more bytes than " + nameOfRow(node, order[i - 1]) +
                        ", but takes less time; times of messages must not decrease with size");
    }
  }

  static void sortRows(LinkTable& table) {
    std::stable_sort(table.rows.begin(), table.rows.end(),
                     [](const auto& a, const auto& b) { return a.ranks < b.ranks; });
  }

  static LinkTable tableOf(const std::vector<LinkRow>& rows) {
    LinkTable table;
    for (const LinkRow& row : rows) table.rows.push_back({row.ranks, {row.latency, 1.0 / row.bandwidth, {}}});
    sortRows(table);
    return table;
  }

  /// Measured times replace latency and bandwidth: one row per size of a ring.
  LinkTable measuredTable() const {
    LinkTable table;
    for (const MessageRow& message : _messages) {
      auto row = std::find_if(table.rows.begin(), table.rows.end(),
                              [&](const auto& other) { return other.ranks == message.ranks; });
      if (row == table.rows.end()) row = table.rows.insert(row, LinkTable::Row{message.ranks, {}});
      row->link.measured.push_back({message.bytes, message.seconds});
    }
    for (LinkTable::Row& row : table.rows)
      std::sort(row.link.measured.begin(), row.link.measured.end(),
                [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
    sortRows(table);
    return table;
  }

  std::string _file;
  SectionReader _reader;
  Cluster _cluster;
  std::vector<LinkRow> _links, _staged;
  std::vector<MessageRow> _messages;
  std::vector<std::function<void()>> _checks;
};

} // namespace

Cluster parseCluster(const std::string& text, const std::string& name) {
  return ClusterReader(name).read(text);
}

Cluster loadCluster(const std::string& path) {
  constexpr std::uint64_t most_bytes = 8 << 20;
  if (!regularFileExists(path, ", not a description of a cluster"))
    throw UserError(path + ": no such description of a cluster");
  return parseCluster(readTextFile(path, most_bytes), path);
}

} // namespace partita
