#pragma once

#include <vector>

namespace partita {

/// An accelerator of PHAZE (ICML 2024): `tensor_cores` arrays of `width` x `depth` processing elements,
/// `vector_cores` of `vector_width` lanes, and one buffer. All numbers are powers of two.
struct Accelerator {
  int tensor_cores = 1, vector_cores = 1;
  int width = 128, depth = 128, vector_width = 128;
  int buffer_mib = 128;
};

inline bool operator==(const Accelerator& a, const Accelerator& b) {
  return a.tensor_cores == b.tensor_cores && a.vector_cores == b.vector_cores && a.width == b.width &&
         a.depth == b.depth && a.vector_width == b.vector_width && a.buffer_mib == b.buffer_mib;
}

/// Area in um^2 of the processing elements, one local memory per core (1 KiB per 64 elements, at least 1 KiB)
/// and the buffer. The constants follow from the published table of 29,360 configurations. Each number must
/// be in the space of `acceleratorSpace`.
double acceleratorArea(const Accelerator& accelerator);

/// The TPUv4-like reference. No accelerator of the space has a larger area.
Accelerator referenceAccelerator();

/// All accelerators with 1..4096 cores of each kind, widths and depths of 2..256, equal widths of both kinds
/// and 2..128 MiB, with an area of at most the reference's, and at least 0.3 of it if there are several cores
/// of each kind. There are 29,360, in descending order of (tensor_cores, vector_cores, width, depth,
/// buffer_mib).
std::vector<Accelerator> acceleratorSpace();

} // namespace partita
