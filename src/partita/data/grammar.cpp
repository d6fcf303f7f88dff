#include "partita/data/grammar.hpp"

#include "partita/core/error.hpp"
#include "partita/core/random.hpp"
#include "partita/data/text.hpp"

#include <array>
#include <string_view>
#include <vector>

namespace partita {

namespace {

/// The rules of one symbol: [begin, end).
struct Choices {
  const GrammarRule *begin = nullptr, *end = nullptr;
};

Choices choicesOf(char symbol) {
  static const auto table = [] {
    std::array<Choices, 26> choices{};
    for (const GrammarRule& rule : grammar_rules) {
      Choices& own = choices[rule.symbol - 'A'];
      if (own.begin == nullptr) own.begin = &rule;
      own.end = &rule + 1;
    }
    return choices;
  }();
  return table[symbol - 'A'];
}

/// Writes sentences from a stream of random numbers; each sentence has its own range of them.
class Writer {
 public:
  explicit Writer(const RandomStream& random) : _random(random) {}

  void write(std::uint64_t sentence, std::string& out) {
    constexpr std::uint64_t draws_per_sentence = std::uint64_t{1} << 24;
    _draw = sentence * draws_per_sentence;
    expand('S', out);
  }

 private:
  void expand(char symbol, std::string& out) {
    const Choices choices = choicesOf(symbol);
    auto left = static_cast<int>(_random.below(_draw++, 100));
    const GrammarRule* rule = choices.begin;
    while (left >= rule->share) left -= rule++->share;
    for (const char c : rule->text) {
      if (isGrammarSymbol(c))
        expand(c, out);
      else
        out += c;
    }
  }

  RandomStream _random;
  std::uint64_t _draw = 0;
};

LoadedSet makeSet(const DataSection& section, std::uint64_t seed, GrammarSplit split, std::int64_t count,
                  Need need) {
  constexpr double bytes_per_token = 1.0 + 2.0 * sizeof(std::int32_t) + 1.0; // text, token, label, feature
  requireRoomForSamples(count, bytes_per_token * static_cast<double>(section.sequence), "grammar");
  const std::string text = grammarText(seed, split, count * section.sequence + 1);
  std::vector<std::int32_t> tokens;
  tokens.reserve(text.size());
  for (const char c : text) tokens.push_back(grammarToken(c));
  return windowsOf(tokens, grammar_tokens, section.sequence, count, "grammar", need);
}

} // namespace

std::string grammarText(std::uint64_t seed, GrammarSplit split, std::size_t count) {
  Writer writer(RandomStream(seed, Stream::grammar, static_cast<std::uint32_t>(split)));
  std::string text;
  for (std::uint64_t sentence = 0; text.size() < count; ++sentence) writer.write(sentence, text);
  return text;
}

std::int32_t grammarToken(char c) {
  constexpr std::string_view others = "\n ,.";
  if (c >= 'a' && c <= 'z') return static_cast<std::int32_t>(others.size()) + (c - 'a');
  const std::size_t place = others.find(c);
  PARTITA_REQUIRE(place != std::string_view::npos, "a character that the grammar does not have");
  return static_cast<std::int32_t>(place);
}

LoadedSets makeGrammarText(const DataSection& section, std::uint64_t seed, Need need) {
  const std::int64_t train = section.samples == 0 ? grammar_training_samples : section.samples;
  const std::int64_t test = section.test_samples == 0 ? grammar_test_samples : section.test_samples;
  LoadedSets sets;
  sets.vocabulary = grammar_tokens;
  sets.train = makeSet(section, seed, GrammarSplit::train, train, need);
  sets.test = makeSet(section, seed, GrammarSplit::test, test, need);
  return sets;
}

} // namespace partita
