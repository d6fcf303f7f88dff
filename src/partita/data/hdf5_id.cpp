#include "partita/data/hdf5_id.hpp"

#include <array>

namespace partita {

std::string missingFilter(hid_t dataset) {
  const Hdf5Id properties(H5Dget_create_plist(dataset), H5Pclose);
  if (!properties || H5Pget_layout(properties.get()) != H5D_CHUNKED) return {};
  const int filters = H5Pget_nfilters(properties.get());
  for (int i = 0; i < filters; ++i) {
    std::array<char, 64> name{};
    std::size_t no_values = 0;
    unsigned flags = 0;
    const H5Z_filter_t filter = H5Pget_filter2(properties.get(), static_cast<unsigned>(i), &flags, &no_values,
                                               nullptr, name.size() - 1, name.data(), nullptr);
    if (filter >= 0 && H5Zfilter_avail(filter) <= 0)
      return name[0] != '\0' ? name.data() : "number " + std::to_string(filter);
  }
  return {};
}

} // namespace partita
