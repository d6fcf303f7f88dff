#include "partita/strategy/pipeline/engine.hpp"

#include "small_run.hpp"
#include "support/catch.hpp"

namespace partita::test::engine {

/// The engine with test work: it knows no layers, and passes on matrices of any size.

namespace {

Matrix filled(std::int64_t rows, std::int64_t columns, Real value) {
  const Matrix matrix = makeMatrix("partita::test::filled", rows, columns);
  Kokkos::deep_copy(matrix, value);
  return matrix;
}

bool holds(const TypedMatrix& stored, std::int64_t rows, std::int64_t columns, Real value) {
  const Matrix matrix = makeMatrix("partita::test::matrix", stored.rows, stored.columns);
  copyValues(ExecSpace(), stored, matrix);
  const auto host = Kokkos::create_mirror_view_and_copy(HostSpace(), matrix);
  bool same = stored.rows == rows && stored.columns == columns;
  for (std::size_t i = 0; i < host.size(); ++i) same = same && host.data()[i] == value;
  return same;
}

/// Microbatches with different numbers of rows and columns, including odd numbers of values. A rank must
/// receive exactly what its neighbour made of the same microbatch, and must find it unchanged when the
/// gradient returns.
class OddWork : public PipelineWork {
 public:
  static constexpr std::int64_t most_rows = 7, most_columns = 301;
  /// The numbers are integers that each precision but bf16 can represent.
  OddWork(const Grid& grid, Precision stored)
      : _grid(grid), _sent("partita::test::sent", stored, most_rows, most_columns) {}

  std::int64_t rows(std::int64_t number) const override { return 1 + (3 * number) % most_rows; }
  static std::int64_t columns(std::int64_t number) { return 1 + (100 * number) % most_columns; }

  TypedMatrix forward(const ExecSpace&, std::int64_t number, const TypedMatrix& in) override {
    right = right && number == forwards++ % 11;
    if (_grid.group() > 0) {
      right = right && holds(in, rows(number), columns(number), value(_grid.group() - 1, number));
      _inputs[static_cast<std::size_t>(number)] = in;
    }
    return stored(number, value(_grid.group(), number));
  }
  TypedMatrix backward(const ExecSpace&, std::int64_t number, const TypedMatrix& gradient) override {
    right = right && number == backwards++ % 11;
    const bool last = _grid.group() + 1 == _grid.plan().groups;
    right =
        right && (last ? gradient.size() == 0
                       : holds(gradient, rows(number), columns(number), -value(_grid.group() + 1, number)));
    if (_grid.group() > 0) {
      right = right && holds(_inputs[static_cast<std::size_t>(number)], rows(number), columns(number),
                             value(_grid.group() - 1, number));
    }
    return stored(number, -value(_grid.group(), number));
  }

  bool right = true;
  std::int64_t forwards = 0, backwards = 0;

 private:
  static Real value(int group, std::int64_t number) { return static_cast<Real>(100 * group + number + 1); }
  TypedMatrix stored(std::int64_t number, Real value) const {
    const TypedMatrix sent = _sent.shaped(rows(number), columns(number));
    copyValues(ExecSpace(), filled(sent.rows, sent.columns, value), sent);
    return sent;
  }
  const Grid& _grid;
  TypedRows _sent;
  TypedMatrix _inputs[11];
};

} // namespace

TEST_CASE("Messages of any shape go through a pipeline", "[pipeline]") {
  const int ranks = everyone().size();
  GridPlan plan;
  plan.ranks = plan.stages = plan.groups = ranks;
  for (int group = 0; group <= ranks; ++group) plan.first_stage.push_back(group);
  for (const MessagePath path : usablePaths(&MessagePaths::messages)) {
    for (const auto schedule : {PipelineSchedule::message_driven, PipelineSchedule::one_f_one_b,
                                PipelineSchedule::eager_one_f_one_b, PipelineSchedule::gpipe}) {
      for (const auto& [wire, stored] :
           {std::pair(Precision::single, Precision::single), std::pair(Precision::fp16, Precision::fp16),
            std::pair(Precision::single, Precision::fp16)}) {
        Grid grid(everyone(), plan, {path, path, "", wire});
        OddWork work(grid, stored);
        StrategySection strategy;
        strategy.pipeline.schedule = schedule;
        PipelineEngine engine(
            grid, strategy, 11,
            {OddWork::most_rows, OddWork::most_columns, OddWork::most_columns, stored, stored}, 4, work);
        for (int batch = 0; batch < 4; ++batch) engine.runBatch(ExecSpace());
        engine.finish();
        CHECK(work.right);
        CHECK(work.forwards == 44);
        CHECK(work.backwards == 44);
      }
    }
  }
}

} // namespace partita::test::engine
