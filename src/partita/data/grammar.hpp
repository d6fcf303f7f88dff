#pragma once

#include "partita/data/dataset.hpp"

#include <cstdint>
#include <string>

namespace partita {

/// The built-in text: sentences of a probabilistic context-free grammar, such as "the old cat that sees some
/// birds sleeps, and dogs run.", one a line, each drawn for itself. Numbers of subject and verb agree, over
/// clauses in between, which takes more than the last few characters to tell. A sentence can be derived in
/// one way only, so that the entropy of the text is that of the draws: no model can have a smaller loss.

constexpr std::int64_t grammar_training_samples = 20000; ///< where the deck says 0
constexpr std::int64_t grammar_test_samples = 1000;
constexpr std::int64_t grammar_tokens = 30; ///< "\n", " ", ",", ".", "a" .. "z" in this order

enum class GrammarSplit : std::uint32_t { train = 0, test = 1 };

/// The first `count` characters or a few more: whole sentences, a function of (seed, split) alone.
std::string grammarText(std::uint64_t seed, GrammarSplit split, std::size_t count);

/// The token of a character of the text.
std::int32_t grammarToken(char c);

/// What the best model of the text comes to, in nats a character: the entropy of a sentence over its mean
/// length.
double grammarEntropy();

LoadedSets makeGrammarText(const DataSection& section, std::uint64_t seed, Need need);

} // namespace partita
