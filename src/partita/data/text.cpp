#include "partita/data/text.hpp"

#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/available_memory.hpp"
#include "partita/data/gzip_file.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

namespace partita {

namespace {

using Pair = std::pair<std::int32_t, std::int32_t>;
using Made = std::unordered_map<std::uint64_t, std::int32_t>;
using Offer = std::tuple<std::int32_t, std::size_t, std::size_t>; // merged token, positions of the pair

constexpr std::int64_t most_tokens = std::int64_t{1} << 24; // integers up to here are exact in float

std::uint64_t keyOf(std::int32_t first, std::int32_t second) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(first)) << 32 |
         static_cast<std::uint32_t>(second);
}

/// Parses two numbers, each below `tokens`; nothing else may follow.
Pair parsePair(std::string_view line, std::int64_t tokens, const std::string& place) {
  Pair pair;
  const char *at = line.data(), *end = at + line.size();
  for (std::int32_t* id : {&pair.first, &pair.second}) {
    while (at != end && (*at == ' ' || *at == '\t')) ++at;
    const auto [next, error] = std::from_chars(at, end, *id);
    if (error != std::errc() || *id < 0)
      throw UserError(place + "expected a pair of tokens, such as '104 101'");
    if (*id >= tokens)
      throw UserError(place + "token " + std::to_string(*id) +
                      " is not defined before this line, which defines " + std::to_string(tokens));
    at = next;
  }
  while (at != end && (*at == ' ' || *at == '\t' || *at == '\r')) ++at;
  if (at != end) throw UserError(place + "expected a pair of tokens, and nothing after it");
  return pair;
}

/// The tokens of a text while neighbouring pairs are merged.
class Merger {
 public:
  Merger(std::string_view text, const Made& made) : _made(made), _next(text.size()), _before(text.size()) {
    _tokens.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
      _tokens.push_back(static_cast<unsigned char>(text[i]));
      _next[i] = i + 1;
      _before[i] = i - 1; // wraps around for the first one, which has none before it
    }
    std::vector<Offer> room;
    room.reserve(text.size());
    _offers = Offers(std::greater<>(), std::move(room));
    for (std::size_t i = 0; i + 1 < text.size(); ++i) offer(i);
  }

  /// Memory needed per byte of the text, with the result.
  static constexpr std::size_t bytes_at_once =
      2 * sizeof(std::int32_t) + 2 * sizeof(std::size_t) + 2 * sizeof(Offer); // a merge may add two for one

  std::vector<std::int32_t> run() {
    while (!_offers.empty()) {
      const auto [made, place, second] = _offers.top();
      _offers.pop();
      if (stillThere(made, place, second)) merge(place, made);
    }
    std::vector<std::int32_t> tokens;
    for (std::size_t i = 0; i < _tokens.size(); i = _next[i]) tokens.push_back(_tokens[i]);
    return tokens;
  }

 private:
  using Offers = std::priority_queue<Offer, std::vector<Offer>, std::greater<>>;

  void offer(std::size_t place) {
    const std::size_t second = _next[place];
    if (second >= _tokens.size()) return;
    const auto made = _made.find(keyOf(_tokens[place], _tokens[second]));
    if (made != _made.end()) _offers.emplace(made->second, place, second);
  }

  bool stillThere(std::int32_t made, std::size_t place, std::size_t second) const {
    if (_tokens[place] < 0 || _tokens[second] < 0 || _next[place] != second) return false;
    const auto now = _made.find(keyOf(_tokens[place], _tokens[second]));
    return now != _made.end() && now->second == made;
  }

  void merge(std::size_t place, std::int32_t made) {
    const std::size_t gone = _next[place];
    _tokens[place] = made;
    _tokens[gone] = -1;
    _next[place] = _next[gone];
    if (_next[place] < _tokens.size()) _before[_next[place]] = place;
    offer(place);
    if (_before[place] < _tokens.size()) offer(_before[place]);
  }

  const Made& _made;
  std::vector<std::int32_t> _tokens; ///< at the position of their first byte; -1: part of an earlier one
  std::vector<std::size_t> _next, _before;
  Offers _offers;
};

} // namespace

BytePairs::BytePairs(std::string_view text, const std::string& name) {
  text = withoutByteOrderMark(text);
  std::size_t line_number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    const std::string place = name + ":" + std::to_string(++line_number) + ": ";
    if (line.empty() || line == "\r" || line.front() == '#') continue;
    if (vocabulary() == most_tokens) throw UserError(place + "more than 2^24 tokens");
    const Pair pair = parsePair(line, vocabulary(), place);
    const auto [known, fresh] =
        _made.emplace(keyOf(pair.first, pair.second), static_cast<std::int32_t>(vocabulary()));
    if (!fresh)
      throw UserError(place + "the pair is the same as that of token " + std::to_string(known->second));
  }
}

std::size_t BytePairs::bytesToEncode() const {
  return _made.empty() ? sizeof(std::int32_t) : Merger::bytes_at_once;
}

std::vector<std::int32_t> BytePairs::encode(std::string_view text) const {
  if (!_made.empty()) return Merger(text, _made).run();
  std::vector<std::int32_t> bytes;
  bytes.reserve(text.size());
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

namespace {

/// Stored as bytes if the vocabulary fits into them: a quarter of the memory.
Samples samplesOf(const std::vector<std::int32_t>& tokens, std::int64_t vocabulary, std::size_t width,
                  std::size_t count) {
  const auto end = tokens.begin() + count * width;
  if (vocabulary <= 256) return Samples(width, std::vector<std::uint8_t>(tokens.begin(), end));
  return Samples(width, std::vector<float>(tokens.begin(), end));
}

} // namespace

LoadedSet windowsOf(const std::vector<std::int32_t>& tokens, std::int64_t vocabulary, std::int64_t sequence,
                    std::int64_t limit, const std::string& source, Need need) {
  const std::size_t width = sequence;
  if (tokens.size() < width + 1) {
    throw UserError(source + ": " + std::to_string(tokens.size()) +
                    " tokens are too few; a sample with data/sequence = " + std::to_string(sequence) +
                    " needs one more");
  }
  const std::size_t count = keptRows((tokens.size() - 1) / width, limit);
  LoadedSet set;
  set.labels.assign(tokens.begin() + 1, tokens.begin() + 1 + count * width);
  set.labels_per_sample = width;
  set.shape = {sequence};
  set.features_source = set.labels_source = source;
  if (need == Need::everything) set.features = samplesOf(tokens, vocabulary, width, count);
  return set;
}

LoadedSets readText(const DataSection& section, Need need, bool evaluates) {
  BytePairs pairs;
  if (!section.vocabulary.empty()) {
    GzipFile file(dataPath(section, section.vocabulary));
    pairs = BytePairs(file.readAll(), file.name());
  }
  LoadedSets sets;
  sets.vocabulary = pairs.vocabulary();
  const auto read = [&](const std::string& name, std::int64_t limit) {
    GzipFile file(dataPath(section, name));
    const std::string text = file.readAll();
    requireMemory(static_cast<double>(text.size()) * static_cast<double>(pairs.bytesToEncode()), file.name());
    return windowsOf(pairs.encode(text), sets.vocabulary, section.sequence, limit, file.name(), need);
  };
  const bool tested = !section.test_file.empty();
  if (!evaluates || !tested) sets.train = read(section.train_file, section.samples);
  if (tested) sets.test = read(section.test_file, section.test_samples);
  return sets;
}

} // namespace partita
