#include "partita/data/grammar.hpp"
#include "partita/data/load_data.hpp"

#include <array>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::data_grammar {

namespace {

/// Expected value, for each symbol, of `own(rule)` summed over all rules that a derivation uses: the solution
/// of x_A = sum over A's rules of share (own + sum of x over the symbols of its text), by iteration.
template <class Own>
double expectedOfSentence(const Own& own) {
  std::array<double, 26> expected{};
  for (int round = 0; round < 2000; ++round) {
    std::array<double, 26> next{};
    for (const GrammarRule& rule : grammar_rules) {
      double value = own(rule);
      for (const char c : rule.text)
        if (isGrammarSymbol(c)) value += expected[c - 'A'];
      next[rule.symbol - 'A'] += rule.share / 100.0 * value;
    }
    expected = next;
  }
  return expected['S' - 'A'];
}

/// The loss of the best possible model of the text, in nats per character: the entropy of a sentence divided
/// by its mean length.
double grammarEntropy() {
  const double nats =
      expectedOfSentence([](const GrammarRule& rule) { return -std::log(rule.share / 100.0); });
  const double length = expectedOfSentence([](const GrammarRule& rule) {
    double characters = 0.0;
    for (const char c : rule.text) characters += isGrammarSymbol(c) ? 0.0 : 1.0;
    return characters;
  });
  return nats / length;
}

/// Nats per character of the best prediction from the last `order` characters, counted and evaluated on the
/// same text: an upper bound of the entropy that becomes tighter as the order grows.
double conditionalEntropy(const std::string& text, std::size_t order) {
  std::map<std::string, std::map<char, double>> counts;
  for (std::size_t i = order; i < text.size(); ++i) ++counts[text.substr(i - order, order)][text[i]];
  double nats = 0.0;
  for (const auto& [context, next] : counts) {
    double all = 0.0;
    for (const auto& [c, n] : next) all += n;
    for (const auto& [c, n] : next) nats -= n * std::log(n / all);
  }
  return nats / static_cast<double>(text.size() - order);
}

} // namespace

TEST_CASE("The built-in text is one of the seed and the set alone", "[data]") {
  const std::string text = grammarText(1, GrammarSplit::train, 5000);
  CHECK(text.substr(0, 200) == grammarText(1, GrammarSplit::train, 200).substr(0, 200));
  CHECK(text.substr(0, 200) != grammarText(2, GrammarSplit::train, 200).substr(0, 200));
  CHECK(text.substr(0, 200) != grammarText(1, GrammarSplit::test, 200).substr(0, 200));
  std::set<std::int32_t> tokens;
  for (const char c : text) tokens.insert(grammarToken(c));
  CHECK(*tokens.begin() == 0);
  CHECK(*tokens.rbegin() < grammar_tokens);
}

TEST_CASE("Verbs agree with their subjects, also over clauses in between", "[data]") {
  const std::set<std::string> of_one{"sleeps", "runs", "sings", "waits", "sees", "likes", "follows", "fears"};
  std::istringstream sentences(grammarText(3, GrammarSplit::train, 100000));
  std::string sentence;
  int with_clauses = 0;
  while (std::getline(sentences, sentence)) {
    CHECK(sentence.back() == '.');
    // "every cat that ... Vs Vs": if a verb without an object ends the clause, two verbs follow one another.
    if (sentence.rfind("every", 0) != 0 || sentence.find(',') != std::string::npos) continue;
    std::istringstream words(sentence.substr(0, sentence.size() - 1));
    std::vector<std::string> verbs;
    for (std::string word; words >> word;)
      if (of_one.count(word) > 0) verbs.push_back(word);
    CHECK_FALSE(verbs.empty());
    with_clauses += sentence.find(" that ") != std::string::npos ? 1 : 0;
  }
  CHECK(with_clauses > 20);
}

TEST_CASE("The entropy of the built-in text is what the documents say, and a bound of what can be predicted",
          "[data]") {
  CHECK(grammarEntropy() == Approx(0.42588216322)); // docs/text.md
  const std::string text = grammarText(1, GrammarSplit::train, 2000000);
  const double few = conditionalEntropy(text, 2), many = conditionalEntropy(text, 7);
  CHECK(few > 1.2 * grammarEntropy());
  CHECK(many > 0.98 * grammarEntropy());
  CHECK(many < 1.2 * grammarEntropy());
}

TEST_CASE("The built-in text loads as windows of tokens", "[data]") {
  DataSection section;
  section.kind = DataKind::grammar;
  section.sequence = 16;
  section.samples = 30;
  section.test_samples = 7;
  const DataSets sets = loadData(section, 1, Need::everything);
  CHECK(sets.classes == grammar_tokens);
  CHECK(sets.train.size() == 30);
  CHECK(sets.test.size() == 7);
  const std::string text = grammarText(1, GrammarSplit::train, 481);
  CHECK(rawRow(sets.train.features, 29)[15] == static_cast<float>(grammarToken(text[479])));
  CHECK(sets.train.labels.back() == grammarToken(text[480]));
  section.samples = 20;
  CHECK(rawRow(loadData(section, 1, Need::everything).train.features, 19) == rawRow(sets.train.features, 19));
  section.classes = 1000; // tokens that never occur
  CHECK(loadData(section, 1, Need::everything).classes == 1000);
}

} // namespace partita::test::data_grammar
