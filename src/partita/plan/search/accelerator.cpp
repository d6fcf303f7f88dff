#include "partita/plan/search/accelerator.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace partita {

namespace {

constexpr double tensor_element = 760.041386, vector_element = 759.823853; // um^2
constexpr int most_cores = 4096, most_width = 256, most_buffer = 128, least_width = 2, least_buffer = 2;
constexpr double least_fill = 0.3; ///< of the reference's area, with several cores of each kind

/// um^2 of a core's memory of 1, 2, 4, ... 1024 KiB.
constexpr std::array<double, 11> core_memory = {6133.98, 8248.43, 12610.5, 22139.9,  38583,    63338.4,
                                                115579,  204764,  446565,  897890.0, 1634130.0};
/// um^2 of a buffer of 2, 4, ... 128 MiB.
constexpr std::array<double, 7> buffer_area = {3338220,  6078640,  11952400, 23745200,
                                               46750900, 88605700, 175423000};

/// The exponent of a power of two.
std::size_t exponent(int power) {
  std::size_t bits = 0;
  while (power > 1) {
    power /= 2;
    ++bits;
  }
  return bits;
}

/// A core has 1 KiB of memory per 64 elements, and at least 1 KiB.
double coreMemory(int elements) {
  return core_memory.at(exponent(std::max(1, elements / 64)));
}

bool legal(const Accelerator& accelerator, double largest) {
  const bool alone = accelerator.tensor_cores == 1 || accelerator.vector_cores == 1;
  const double area = acceleratorArea(accelerator);
  return area <= largest && area >= (alone ? 0.0 : least_fill * largest);
}

} // namespace

double acceleratorArea(const Accelerator& a) {
  const int elements = a.width * a.depth;
  return a.tensor_cores * (elements * tensor_element + coreMemory(elements)) +
         a.vector_cores * (a.vector_width * vector_element + coreMemory(a.vector_width)) +
         buffer_area.at(exponent(a.buffer_mib) - 1);
}

Accelerator referenceAccelerator() {
  return {8, 2, 128, 128, 128, 128};
}

std::vector<Accelerator> acceleratorSpace() {
  const double largest = acceleratorArea(referenceAccelerator());
  std::vector<Accelerator> space;
  for (int tensor = most_cores; tensor >= 1; tensor /= 2)
    for (int vector = most_cores; vector >= 1; vector /= 2)
      for (int width = most_width; width >= least_width; width /= 2)
        for (int depth = most_width; depth >= least_width; depth /= 2)
          for (int buffer = most_buffer; buffer >= least_buffer; buffer /= 2) {
            const Accelerator accelerator{tensor, vector, width, depth, width, buffer};
            if (legal(accelerator, largest)) space.push_back(accelerator);
          }
  return space;
}

} // namespace partita
