#pragma once

#include "partita/core/rows.hpp"
#include "partita/core/typed_span.hpp"
#include "partita/plan/scratch_budget.hpp"

#include <algorithm>

/// Gradients of the norms over the last extent: from rows one by one on hosts, and in groups of rows on
/// devices.
namespace partita {

/// Locates the statistics of a position: one over the root, and for layer-norm the mean after it.
struct NormStatistics {
  Real* saved;
  bool centred;
  KOKKOS_INLINE_FUNCTION Real& inverse(std::int64_t row) const { return saved[centred ? 2 * row : row]; }
  KOKKOS_INLINE_FUNCTION Real mean(std::int64_t row) const { return centred ? saved[2 * row + 1] : Real(0); }
  KOKKOS_INLINE_FUNCTION void setMean(std::int64_t row, Real mean) const {
    if (centred) saved[2 * row + 1] = mean;
  }
};

/// What the backward pass reads and writes; the gradient of the input may be null.
template <class Stored, class Parameter>
struct NormOperands {
  const Stored *in, *grad_out;
  const Parameter* factor;
  Stored* grad_in;
  NormStatistics statistics;
  std::int64_t rows, width;

  std::int64_t sums() const { return statistics.centred ? 2 * width : width; } ///< of the parameters
  bool aligned() const {
    return width % values_per_pack == 0 && alignedForPacks(in, grad_out, factor, grad_in);
  }
};

/// With h = (x - mean) / root and e = g dJ/dy: dJ/dx = (e - mean(e) - h mean(e h)) / root; if no mean of x is
/// subtracted, the term mean(e) is absent.
template <class Stored, class Parameter>
struct NormGradientRow {
  NormOperands<Stored, Parameter> operands;

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, const Row& row) const {
    const NormStatistics statistics = operands.statistics;
    const std::int64_t width = operands.width;
    const Stored *x = operands.in + i * width, *dy = operands.grad_out + i * width;
    const Parameter* g = operands.factor;
    Stored* dx = operands.grad_in + i * width;
    const Real mean = statistics.mean(i), inverse = statistics.inverse(i);
    const Real share = Real(1) / static_cast<Real>(width);
    const Real along = share * inverse * row.sum(width, [=](std::int64_t j) {
      return toReal(g[j]) * toReal(dy[j]) * (toReal(x[j]) - mean);
    });
    const Real average =
        statistics.centred
            ? share * row.sum(width, [=](std::int64_t j) { return toReal(g[j]) * toReal(dy[j]); })
            : Real(0);
    row.each(width, [=](std::int64_t j) {
      dx[j] = fromReal<Stored>(
          inverse * (toReal(g[j]) * toReal(dy[j]) - average - (toReal(x[j]) - mean) * inverse * along));
    });
  }
};

template <class Stored>
struct FactorGradient {
  const Stored *in, *grad_out;
  NormStatistics statistics;
  std::int64_t width;
  KOKKOS_INLINE_FUNCTION Real operator()(std::int64_t row, std::int64_t j) const {
    const std::int64_t i = row * width + j;
    return toReal(grad_out[i]) * (toReal(in[i]) - statistics.mean(row)) * statistics.inverse(row);
  }
};

/// For devices: the gradients of the input, and sums for those of the parameters, in one pass over the rows,
/// by teams that each have a group of them. A thread of a team has one row at a time. The sums of a group are
/// dJ/dy x^ and then, for layer-norm, dJ/dy.
template <class P, class Stored, class Parameter>
struct NormGradients {
  using Scratch = ScratchView<Real*>;
  NormOperands<Stored, Parameter> operands;
  Real* sums;        // [groups, sums of the parameters]
  std::int64_t size; // of a group
  int threads;

  KOKKOS_INLINE_FUNCTION void operator()(const Team::member_type& member) const {
    const std::int64_t packs = operands.width / P::count, rows = operands.rows;
    const Scratch scratch(member.team_scratch(0), threads * size);
    Kokkos::parallel_for(Kokkos::TeamThreadRange(member, threads), [&](int thread) {
      Real* const own = scratch.data() + thread * size;
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(member, packs), [&](std::int64_t pack) {
        for (std::int64_t i = pack; i < size; i += packs) own[i] = 0;
      });
      const std::int64_t step = std::int64_t{threads} * member.league_size();
      for (std::int64_t row = std::int64_t{threads} * member.league_rank() + thread; row < rows; row += step)
        addRow(member, row, own);
    });
    member.team_barrier();
    Real* const to = sums + member.league_rank() * size;
    Kokkos::parallel_for(Kokkos::TeamVectorRange(member, size), [&](std::int64_t i) {
      Real total = 0;
      for (int thread = 0; thread < threads; ++thread) total += scratch(thread * size + placeInScratch(i));
      to[i] = total;
    });
  }

 private:
  /// The first value of each pack comes first, then the second ones, so that neighbouring lanes
  /// access neighbouring banks.
  KOKKOS_INLINE_FUNCTION std::int64_t placeInScratch(std::int64_t i) const {
    const std::int64_t width = operands.width, kind = i / width, column = i - kind * width,
                       pack = column / P::count;
    return kind * width + (column - pack * P::count) * (width / P::count) + pack;
  }

  KOKKOS_INLINE_FUNCTION void addRow(const Team::member_type& member, std::int64_t row, Real* own) const {
    const std::int64_t width = operands.width, packs = width / P::count;
    const Stored *x = operands.in + row * width, *dy = operands.grad_out + row * width;
    const Parameter* g = operands.factor;
    const Real mean = operands.statistics.mean(row), inverse = operands.statistics.inverse(row);
    TwoValues found{0, 0}; // the sums of e and of e (x - mean)
    Kokkos::parallel_reduce(
        Kokkos::ThreadVectorRange(member, packs),
        [&](std::int64_t pack, TwoValues& sum) { // stores nothing, so that loads need not wait
          const std::int64_t j = pack * P::count;
          const auto of_y = P::load(dy + j), of_x = P::load(x + j), of_g = P::load(g + j);
          for (int k = 0; k < P::count; ++k) {
            const Real e = P::at(of_g, k) * P::at(of_y, k);
            sum.first += e;
            sum.second += e * (P::at(of_x, k) - mean);
          }
        },
        detail::SumOfTwo(found));
    Stored* const dx = operands.grad_in == nullptr ? nullptr : operands.grad_in + row * width;
    const Real share = Real(1) / static_cast<Real>(width), along = share * inverse * found.second,
               average = operands.statistics.centred ? share * found.first : Real(0);
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(member, packs), [&](std::int64_t pack) {
      const std::int64_t j = pack * P::count;
      const auto of_y = P::load(dy + j),
                 hat = P::map([=](Real of_x) { return (of_x - mean) * inverse; }, P::load(x + j));
      if (dx != nullptr)
        P::store(dx + j,
                 P::map([=](Real slope, Real normalised,
                            Real of_g) { return inverse * (of_g * slope - average - normalised * along); },
                        of_y, hat, P::load(g + j)));
      addTo(own + pack, packs,
            P::map([](Real slope, Real normalised) { return slope * normalised; }, of_y, hat));
      if (operands.statistics.centred) addTo(own + width + pack, packs, of_y);
    });
  }

  /// Reads all sums before it writes one.
  KOKKOS_INLINE_FUNCTION static void addTo(Real* sums, std::int64_t step, const typename P::Values& values) {
    Real sum[P::count];
    for (int k = 0; k < P::count; ++k) sum[k] = sums[k * step] + P::at(values, k);
    for (int k = 0; k < P::count; ++k) sums[k * step] = sum[k];
  }
};

template <class P, class Stored, class Parameter>
void addInGroups(const ExecSpace& space, std::int64_t groups, int threads,
                 const NormOperands<Stored, Parameter>& operands, Real* sums) {
  using Body = NormGradients<P, Stored, Parameter>;
  const std::size_t values = static_cast<std::size_t>(operands.sums()) * static_cast<std::size_t>(threads);
  const auto policy =
      teamsOf<LargeTeam>(space, groups, threads, vector_lanes, Body::Scratch::shmem_size(values));
  Kokkos::parallel_for("partita::Norm::gradients_kernel", policy,
                       Body{operands, sums, operands.sums(), threads});
}

/// Threads of a team whose scratch holds `sums` sums of each; 0: not even one thread's sums fit.
constexpr int threadsOfGroup(std::int64_t sums) {
  constexpr std::int64_t most = 4, values = team_scratch_bytes / std::int64_t{sizeof(Real)};
  return static_cast<int>(std::min(most, values / sums));
}

/// Computes the gradients of the input, and the sums of `groups` groups; false if they do not fit into the
/// scratch memory of a team.
template <class Stored, class Parameter>
bool addInGroups(const ExecSpace& space, std::int64_t groups, const NormOperands<Stored, Parameter>& operands,
                 Real* sums) {
  if constexpr (row_teams) {
    const int threads = threadsOfGroup(operands.sums());
    if (threads == 0) return false;
    if (operands.aligned())
      addInGroups<Pack<values_per_pack>>(space, groups, threads, operands, sums);
    else
      addInGroups<Pack<1>>(space, groups, threads, operands, sums);
    return true;
  } else {
    return false;
  }
}

/// The gradients of the parameters from the sums of groups.
template <class Stored, class Parameter, class Gradient>
void addGroups(const ExecSpace& space, std::int64_t groups, const NormOperands<Stored, Parameter>& operands,
               const Real* sums, Gradient* factor, Gradient* shift, bool keep) {
  const std::int64_t width = operands.width, size = operands.sums();
  const bool together = shift == factor + width; // then one kernel adds up both
  sumColumns(space, "partita::Norm::factor_sums", groups, together ? size : width, ValuesOf<Real>{sums, size},
             factor, keep);
  if (operands.statistics.centred && !together)
    sumColumns(space, "partita::Norm::shift_sums", groups, width, ValuesOf<Real>{sums + width, size}, shift,
               keep);
}

/// The same from all rows.
template <class Stored, class Parameter, class Gradient>
void addRows(const ExecSpace& space, const NormOperands<Stored, Parameter>& operands, Gradient* factor,
             Gradient* shift, bool keep) {
  const std::int64_t rows = operands.rows, width = operands.width;
  sumColumns(space, "partita::Norm::factor_gradient", rows, width,
             FactorGradient<Stored>{operands.in, operands.grad_out, operands.statistics, width}, factor,
             keep);
  if (operands.statistics.centred)
    sumColumns(space, "partita::Norm::shift_gradient", rows, width,
               ValuesOf<Stored>{operands.grad_out, width}, shift, keep);
}

} // namespace partita
