#pragma once

#include "partita/data/dataset.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace partita {

/// The built-in text: sentences of a probabilistic context-free grammar, such as "the old cat that sees some
/// birds sleeps, and dogs run.", one per line and drawn independently. Subject and verb agree in number
/// across intervening clauses, so the last few characters do not suffice to predict the verb. The grammar is
/// unambiguous, so the entropy of the text is that of the draws: no model can have a smaller loss.

/// A capital letter is replaced by one of the texts of its rules, with probabilities of share / 100; all
/// other characters are copied.
struct GrammarRule {
  char symbol;
  int share;
  std::string_view text;
};

/// S sentence, C clause; N singular and M plural noun phrase; V singular and W plural verb phrase; O object;
/// A, B singular and plural noun with its modifiers; Q adjective; X, Y nouns; I, J verbs without and T, U
/// verbs with an object.
inline constexpr GrammarRule grammar_rules[] = {
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

constexpr bool isGrammarSymbol(char c) {
  return c >= 'A' && c <= 'Z';
}

constexpr std::int64_t grammar_training_samples = 20000; ///< if the deck says 0
constexpr std::int64_t grammar_test_samples = 1000;
constexpr std::int64_t grammar_tokens = 30; ///< "\n", " ", ",", ".", "a" .. "z" in this order

enum class GrammarSplit : std::uint32_t { train = 0, test = 1 };

/// Whole sentences with at least `count` characters. Depends only on (seed, split).
std::string grammarText(std::uint64_t seed, GrammarSplit split, std::size_t count);

/// The token of a character of the text.
std::int32_t grammarToken(char c);

LoadedSets makeGrammarText(const DataSection& section, std::uint64_t seed, Need need);

} // namespace partita
