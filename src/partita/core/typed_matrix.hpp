#pragma once

#include "partita/core/error.hpp"
#include "partita/core/typed_span.hpp"

namespace partita {

/// A row-major matrix whose numbers are stored in one of the precisions. Rows begin `stride` values apart.
/// Non-owning.
struct TypedMatrix {
  Precision precision = Precision::single;
  void* data = nullptr;
  std::int64_t rows = 0, columns = 0, stride = 0;

  TypedMatrix() = default;
  TypedMatrix(const Matrix& matrix)
      : data(matrix.data()), rows(matrix.extent(0)), columns(matrix.extent(1)), stride(matrix.stride(0)) {}
  TypedMatrix(const TypedSpan& values, std::int64_t its_rows, std::int64_t its_columns)
      : TypedMatrix(values.precision, values.data, its_rows, its_columns) {
    PARTITA_REQUIRE(values.size == its_rows * its_columns, "values that do not fill a matrix");
  }
  TypedMatrix(Precision its_precision, void* its_data, std::int64_t its_rows, std::int64_t its_columns)
      : precision(its_precision), data(its_data), rows(its_rows), columns(its_columns), stride(its_columns) {}

  std::int64_t size() const { return rows * columns; }
  bool half() const { return precision != Precision::single; }

  TypedMatrix columnsFrom(std::int64_t first, std::int64_t count) const {
    TypedMatrix part = *this;
    part.data = at(first);
    part.columns = count;
    return part;
  }
  TypedMatrix rowsFrom(std::int64_t first, std::int64_t count) const {
    TypedMatrix part = *this;
    part.data = at(first * stride);
    part.rows = count;
    return part;
  }
  /// The same values as rows of another length. There must be no gaps between the rows, here and in
  /// the functions below.
  TypedMatrix inRowsOf(std::int64_t width) const {
    return TypedMatrix(precision, data, size() / width, width);
  }
  TypedSpan values() const {
    PARTITA_REQUIRE(stride == columns || rows < 2, "rows of a matrix with gaps");
    return {precision, data, size()};
  }
  Matrix real() const {
    PARTITA_REQUIRE(!half(), "16-bit numbers are not Real");
    return Matrix(static_cast<Real*>(values().data), rows, columns);
  }
  template <class Stored>
  Stored* as() const {
    return static_cast<Stored*>(data);
  }

 private:
  void* at(std::int64_t value) const { return static_cast<char*>(data) + value * bytesOf(precision); }
};

/// Memory for matrices of up to `rows` rows in one of the precisions, uninitialised; or empty.
class TypedRows {
 public:
  TypedRows() = default;
  TypedRows(const std::string& label, Precision precision, std::int64_t rows, std::int64_t columns);

  bool empty() const { return _memory.data() == nullptr; }
  TypedMatrix top(std::int64_t rows) const { return _all.rowsFrom(0, rows); }
  /// A matrix that may also have fewer columns.
  TypedMatrix shaped(std::int64_t rows, std::int64_t columns) const {
    return TypedMatrix(_all.precision, _all.data, rows, columns);
  }

 private:
  Vector _memory;
  TypedMatrix _all;
};

/// The first place in scratch at a multiple of 64 bytes, which libraries want.
inline Real* alignedIn(Real* scratch) {
  while (reinterpret_cast<std::uintptr_t>(scratch) % 64 != 0) ++scratch;
  return scratch;
}

/// The same values, of the same shape, rounded if their precisions differ.
void copyValues(const ExecSpace& space, const TypedMatrix& from, const TypedMatrix& to);

/// to += factor * what, of the same shape and precision; the sum is rounded.
void addScaled(const ExecSpace& space, const char* label, const TypedMatrix& to, const TypedMatrix& what,
               const DeviceFactor& factor = {});

/// Rounds `Real` values to the given precision; does nothing for single precision, and for values that are
/// stored in 16 bits.
void roundTo(const ExecSpace& space, Precision precision, const TypedMatrix& values);

} // namespace partita
