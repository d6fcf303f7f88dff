#include "partita/data/grammar.hpp"

#include "partita/core/error.hpp"
#include "partita/core/random.hpp"
#include "partita/data/text.hpp"

#include <array>
#include <cmath>
#include <string_view>
#include <vector>

namespace partita {

namespace {

/// A capital becomes one of the texts of its rules, by their shares of 100; all else stays as it is.
struct Rule {
  char symbol;
  int share;
  std::string_view text;
};

/// S sentence, C clause; N noun phrase and V verb phrase of one, M and W of many; O object; A, B noun of one
/// and of many with what belongs to it; Q adjective, X, Y nouns, I, J verbs without and T, U with an object.
constexpr Rule rules[] = {
    {'S', 75, "C.\n"},     {'S', 25, "C, and C.\n"}, {'C', 50, "N V"},     {'C', 50, "M W"},
    {'N', 50, "the A"},    {'N', 30, "a A"},         {'N', 20, "every A"}, {'M', 40, "the B"},
    {'M', 35, "some B"},   {'M', 25, "B"},           {'A', 30, "Q A"},     {'A', 50, "X"},
    {'A', 20, "X that V"}, {'B', 30, "Q B"},         {'B', 50, "Y"},       {'B', 20, "Y that W"},
    {'V', 40, "I"},        {'V', 60, "T O"},         {'W', 40, "J"},       {'W', 60, "U O"},
    {'O', 50, "N"},        {'O', 50, "M"},           {'Q', 30, "old"},     {'Q', 20, "small"},
    {'Q', 15, "quiet"},    {'Q', 15, "grey"},        {'Q', 10, "hungry"},  {'Q', 10, "lazy"},
    {'X', 25, "cat"},      {'X', 20, "dog"},         {'X', 15, "bird"},    {'X', 15, "fox"},
    {'X', 10, "horse"},    {'X', 10, "child"},       {'X', 5, "mouse"},    {'Y', 25, "cats"},
    {'Y', 20, "dogs"},     {'Y', 15, "birds"},       {'Y', 15, "foxes"},   {'Y', 10, "horses"},
    {'Y', 10, "children"}, {'Y', 5, "mice"},         {'I', 35, "sleeps"},  {'I', 30, "runs"},
    {'I', 20, "sings"},    {'I', 15, "waits"},       {'J', 35, "sleep"},   {'J', 30, "run"},
    {'J', 20, "sing"},     {'J', 15, "wait"},        {'T', 35, "sees"},    {'T', 25, "likes"},
    {'T', 25, "follows"},  {'T', 15, "fears"},       {'U', 35, "see"},     {'U', 25, "like"},
    {'U', 25, "follow"},   {'U', 15, "fear"},
};

bool isSymbol(char c) {
  return c >= 'A' && c <= 'Z';
}

/// The rules of one symbol: [begin, end).
struct Choices {
  const Rule *begin = nullptr, *end = nullptr;
};

Choices choicesOf(char symbol) {
  static const auto table = [] {
    std::array<Choices, 26> choices{};
    for (const Rule& rule : rules) {
      Choices& own = choices[static_cast<std::size_t>(rule.symbol - 'A')];
      if (own.begin == nullptr) own.begin = &rule;
      own.end = &rule + 1;
    }
    return choices;
  }();
  return table[static_cast<std::size_t>(symbol - 'A')];
}

/// Sentences of a stream of random numbers; each has a run of them for itself.
class Writer {
 public:
  explicit Writer(const RandomStream& random) : _random(random) {}

  void write(std::uint64_t sentence, std::string& out) {
    constexpr std::uint64_t draws_a_sentence = std::uint64_t{1} << 24;
    _draw = sentence * draws_a_sentence;
    expand('S', out);
  }

 private:
  void expand(char symbol, std::string& out) {
    const Choices choices = choicesOf(symbol);
    auto left = static_cast<int>(_random.below(_draw++, 100));
    const Rule* rule = choices.begin;
    while (left >= rule->share) left -= rule++->share;
    for (const char c : rule->text) {
      if (isSymbol(c))
        expand(c, out);
      else
        out += c;
    }
  }

  RandomStream _random;
  std::uint64_t _draw = 0;
};

/// Expected value of `own(rule)` summed over all rules that a derivation uses, for each symbol: the solution
/// of x_A = sum over A's rules of share (own + sum of x over the symbols of its text), by iteration.
template <class Own>
double expectedOfSentence(const Own& own) {
  std::array<double, 26> expected{};
  for (int round = 0; round < 2000; ++round) {
    std::array<double, 26> next{};
    for (const Rule& rule : rules) {
      double value = own(rule);
      for (const char c : rule.text)
        if (isSymbol(c)) value += expected[static_cast<std::size_t>(c - 'A')];
      next[static_cast<std::size_t>(rule.symbol - 'A')] += rule.share / 100.0 * value;
    }
    expected = next;
  }
  return expected['S' - 'A'];
}

LoadedSet makeSet(const DataSection& section, std::uint64_t seed, GrammarSplit split, std::int64_t count,
                  Need need) {
  constexpr double bytes_per_token = 1.0 + 2.0 * sizeof(std::int32_t) + 1.0; // text, token, label, feature
  requireRoomForSamples(count, bytes_per_token * static_cast<double>(section.sequence), "grammar");
  const std::string text = grammarText(seed, split, static_cast<std::size_t>(count * section.sequence + 1));
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

double grammarEntropy() {
  const double nats = expectedOfSentence([](const Rule& rule) { return -std::log(rule.share / 100.0); });
  const double length = expectedOfSentence([](const Rule& rule) {
    double characters = 0.0;
    for (const char c : rule.text) characters += isSymbol(c) ? 0.0 : 1.0;
    return characters;
  });
  return nats / length;
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
