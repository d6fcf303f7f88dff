#pragma once

#include "partita/data/hdf5_id.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace partita {

/// Every HDF5 call of this room goes through these two: a failure becomes a UserError of one line, since what
/// fails here is a file or a disk.
Hdf5Id checkedId(hid_t id, Hdf5Id::Close close, const std::string& failure);
void checkHdf5(herr_t status, const std::string& failure);

hid_t realType(); ///< of a Real in memory and in files
Hdf5Id simpleSpace(const std::vector<std::int64_t>& extents);
std::vector<std::int64_t> extentsOf(hid_t dataset);

/// Small facts of an object. Reading throws where the attribute is missing or of another type; `where` names
/// the file and the object in messages.
void writeAttribute(hid_t object, const std::string& name, const std::string& text, const std::string& where);
void writeAttribute(hid_t object, const std::string& name, std::int64_t value, const std::string& where);
void writeAttribute(hid_t object, const std::string& name, double value, const std::string& where);
void changeAttribute(hid_t object, const std::string& name, std::int64_t value, const std::string& where);

std::string readText(hid_t object, const std::string& name, const std::string& where);
std::int64_t readInteger(hid_t object, const std::string& name, const std::string& where);
double readNumber(hid_t object, const std::string& name, const std::string& where);

} // namespace partita
