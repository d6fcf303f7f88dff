#include "partita/train/node_data.hpp"

#include "partita/comm/agree.hpp"
#include "partita/comm/node_memory.hpp"
#include "partita/core/available_memory.hpp"
#include "partita/core/log.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace partita {

namespace {

using Numbers = std::vector<std::uint64_t>;

template <class Visit>
void visitSets(DataSets& sets, Visit& visit) {
  for (Dataset* const set : {&sets.train, &sets.validation, &sets.test}) set->visitContents(visit);
}

/// Takes the place of an array in memory that holds one after another: returns its offset.
std::uint64_t takePlace(std::uint64_t& end, std::uint64_t bytes) {
  constexpr std::uint64_t alignment = 128; // bytes
  const std::uint64_t begin = end;
  end += (bytes + alignment - 1) / alignment * alignment;
  return begin;
}

/// Lists the numbers of sets and the sizes of their arrays, and counts the bytes of these.
struct Describe {
  Numbers numbers{};
  std::uint64_t bytes = 0;

  void operator()(std::size_t number) { numbers.push_back(number); }
  template <class T>
  void operator()(const ConstArray<T>& array) {
    numbers.push_back(array.size());
    takePlace(bytes, array.size() * sizeof(T));
  }
};

/// Copies the arrays of sets to `memory`.
struct CopyOut {
  char* memory;
  std::uint64_t end = 0;

  void operator()(std::size_t /*number*/) {}
  template <class T>
  void operator()(const ConstArray<T>& array) {
    const std::uint64_t bytes = array.size() * sizeof(T), begin = takePlace(end, bytes);
    if (bytes > 0) std::memcpy(memory + begin, array.data(), bytes);
  }
};

/// Replaces the contents of sets by those that were described and copied.
struct Replace {
  const std::uint64_t* next; ///< of the numbers
  std::shared_ptr<const void> memory;
  std::uint64_t end = 0;

  void operator()(std::size_t& number) { number = *next++; }
  template <class T>
  void operator()(ConstArray<T>& array) {
    const std::uint64_t count = *next++, begin = takePlace(end, count * sizeof(T));
    const void* const values = static_cast<const char*>(memory.get()) + begin;
    array = ConstArray<T>(memory, static_cast<const T*>(values), count);
  }
};

/// What `fill` writes on the first rank, in memory of each rank.
std::shared_ptr<const void> copyToEach(const Communicator& ranks, std::uint64_t bytes,
                                       const std::function<void(void*)>& fill) {
  auto words = std::make_shared<Numbers>((bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t));
  if (ranks.rank() == 0) fill(words->data());
  broadcast(ranks, *words);
  return {words, words->data()};
}

/// Warns once, on rank 0, if some ranks cannot share memory. `failure`: why this rank cannot; empty if it
/// can.
void warnOfCopies(const Communicator& world, const std::string& failure) {
  const std::int64_t nobody = world.size(),
                     first = world.minimum(failure.empty() ? nobody : std::int64_t{world.rank()});
  if (first == nobody) return;
  // Loading the labels may already have told it.
  Log::warnOnce("the ranks of a node cannot share memory (" +
                broadcast(world, failure, static_cast<int>(first)) + "): each holds a copy of the data");
}

/// Gives all ranks of `sharing` what `fill` writes on the first one: in shared memory, otherwise in copies.
std::shared_ptr<const void> onAllRanks(const Communicator& world, const Communicator* sharing,
                                       std::uint64_t bytes, const std::function<void(void*)>& fill) {
  const bool first = sharing != nullptr && sharing->rank() == 0;
  const auto needed = static_cast<double>(bytes);
  collectively(world, [&] {
    if (first) requireMemory(needed, "a copy of the data for the ranks of the node");
  });
  NodeMemory memory;
  if (sharing != nullptr) memory = shareOnNode(*sharing, bytes, fill);
  warnOfCopies(world, memory.failure);
  const bool copies = !memory.failure.empty();
  collectively(world, [&] {
    if (!copies) return;
    const double of_all = needed * sharing->size();
    requireMemory(first && of_all > availableOnNode() ? of_all : needed, "a copy of the data for each rank");
  });
  if (copies) memory.values = copyToEach(*sharing, bytes, fill);
  return memory.values;
}

} // namespace

DataSets loadOnNode(const Communicator& world, const Communicator* sharing,
                    const std::function<DataSets()>& load) {
  DataSets sets;
  collectively(world, [&] {
    if (sharing != nullptr && sharing->rank() == 0) sets = load();
  });
  if (sharing != nullptr && sharing->size() == 1) sharing = nullptr;
  Describe contents;
  if (sharing != nullptr) {
    visitSets(sets, contents);
    broadcast(*sharing, contents.numbers);
    contents.bytes = static_cast<std::uint64_t>(sharing->maximum(static_cast<std::int64_t>(contents.bytes)));
  }
  const std::shared_ptr<const void> arrays = onAllRanks(world, sharing, contents.bytes, [&](void* to) {
    CopyOut copy{static_cast<char*>(to)};
    visitSets(sets, copy);
  });
  if (sharing == nullptr) return sets;
  Replace replace{contents.numbers.data(), arrays};
  visitSets(sets, replace);
  broadcast(*sharing, sets.shape);
  broadcast(*sharing, sets.shift);
  broadcast(*sharing, sets.scale);
  broadcast(*sharing, sets.label_values);
  sets.classes = sharing->maximum(sets.classes);
  sets.test_labelled = sharing->minimum(std::int64_t{sets.test_labelled}) != 0;
  return sets;
}

} // namespace partita
