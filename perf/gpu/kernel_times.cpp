// A library that CUDA loads into a program when CUDA_INJECTION64_PATH names it. At the end of the program it
// writes, for the second half of the time in which the device worked (the first half warms up), how long each
// kernel and each copy took, longest first, and how long the device had nothing to do. KERNEL_TIMES names the
// file (default kernel_times.txt).
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cupti.h>
#include <cxxabi.h>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {
#if CUPTI_API_VERSION >= 130000
using KernelRecord = CUpti_ActivityKernel10;
#else
using KernelRecord = CUpti_ActivityKernel9;
#endif

struct Interval {
  uint64_t begin, end; // ns
  const std::string* name;
};

struct Records {
  std::mutex mutex; // CUPTI hands over records from a thread of its own
  std::map<std::string, int> names;
  std::vector<Interval> intervals;

  void add(uint64_t begin, uint64_t end, const std::string& name) {
    std::lock_guard<std::mutex> lock(mutex);
    intervals.push_back({begin, end, &names.emplace(name, 0).first->first});
  }
};

Records& records() {
  static auto* const all = new Records; // never destroyed: CUPTI's thread may outlive the statics
  return *all;
}

void addRecord(const CUpti_Activity* record) {
  if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto* kernel = reinterpret_cast<const KernelRecord*>(record);
    records().add(kernel->start, kernel->end, kernel->name ? kernel->name : "?");
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto* copy = reinterpret_cast<const CUpti_ActivityMemcpy6*>(record);
    const char* const kinds[] = {"copy", "copy to the device", "copy to the host"};
    records().add(copy->start, copy->end, kinds[copy->copyKind <= 2 ? copy->copyKind : 0]);
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto* fill = reinterpret_cast<const CUpti_ActivityMemset4*>(record);
    records().add(fill->start, fill->end, "memset");
  }
}

void CUPTIAPI giveBuffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *size = size_t(1) << 22;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, *size));
  *most_records = 0; // as many as fit
}

void CUPTIAPI takeBuffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t filled) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, filled, &record) == CUPTI_SUCCESS) addRecord(record);
  std::free(buffer);
}

std::string readable(const std::string& symbol) {
  int status = 0;
  char* const text = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  std::string const name = status == 0 ? text : symbol;
  std::free(text);
  return name;
}

struct Sum {
  uint64_t nanoseconds = 0;
  int calls = 0;
};

void report() {
  cuptiActivityFlushAll(1);
  auto& intervals = records().intervals;
  if (intervals.empty()) return;
  std::sort(intervals.begin(), intervals.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  const uint64_t end = intervals.back().end;
  const uint64_t from = intervals.front().begin + (end - intervals.front().begin) / 2;
  std::map<const std::string*, Sum> sums;
  uint64_t busy = 0, reached = from;
  for (const auto& interval : intervals)
    if (interval.begin >= from) {
      auto& sum = sums[interval.name];
      sum.nanoseconds += interval.end - interval.begin;
      ++sum.calls;
      if (interval.end > reached) busy += interval.end - std::max(reached, interval.begin);
      reached = std::max(reached, interval.end);
    }
  std::vector<std::pair<const std::string*, Sum>> rows(sums.begin(), sums.end());
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.second.nanoseconds > b.second.nanoseconds; });
  const char* const path = std::getenv("KERNEL_TIMES");
  std::FILE* const file = std::fopen(path ? path : "kernel_times.txt", "w");
  if (!file) return;
  std::fprintf(file, "the device was busy for %.3f of %.3f ms\n", 1e-6 * double(busy),
               1e-6 * double(end - from));
  for (const auto& [name, sum] : rows)
    std::fprintf(file, "%.3f\t%d\t%s\n", 1e-6 * double(sum.nanoseconds), sum.calls, readable(*name).c_str());
  std::fclose(file);
}
} // namespace

extern "C" int InitializeInjection() {
  cuptiActivityRegisterCallbacks(giveBuffer, takeBuffer);
  for (const auto kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET})
    cuptiActivityEnable(kind);
  std::atexit(report);
  return 1;
}
