// Requests in flight: which part of the engine asked, about what, and which attempt counts.
//
// A completion is believed only if its request is open and its attempt is the latest. Any other
// completion changes nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/check.h"
#include "core/base/pool.h"
#include "core/engine/event.h"

namespace batchflow::engine {

enum class RequestKind : std::uint8_t { none, read, prepare, transfer, deliver };

class Requests {
 public:
  struct OpenRequest {
    RequestKind kind = RequestKind::none;
    std::uint32_t attempt = 0;
    std::uint32_t subject = kNone;  // index of the read, making or batch it is about
    std::uint32_t part = 0;         // of the subject: the piece of a batch
    std::uint64_t serial = 0;
  };

  Request open(RequestKind kind, std::uint32_t subject, std::uint32_t part = 0) {
    std::uint32_t index;
    if (free_.empty()) {
      index = static_cast<std::uint32_t>(records_.size());
      BF_CHECK(index < kIndexMask);
      records_.emplace_back();
    } else {
      index = free_.back();
      free_.pop_back();
    }
    OpenRequest& record = records_[index];
    record = {kind, 0, subject, part, ++serial_};
    return {id_of(index, record), 0};
  }

  // The record of an open request, if `request` is its latest attempt.
  const OpenRequest* find(Request request, RequestKind kind) const {
    const OpenRequest* record = at(request.id);
    return record && record->kind == kind && record->attempt == request.attempt ? record : nullptr;
  }

  // Begins the next attempt of an open request; completions of earlier ones count no more.
  Request again(RequestId id) {
    OpenRequest* record = const_cast<OpenRequest*>(at(id));
    BF_CHECK(record);
    return {id, ++record->attempt};
  }

  Request latest(RequestId id) const {
    const OpenRequest* record = at(id);
    BF_CHECK(record);
    return {id, record->attempt};
  }

  void reassign(RequestId id, std::uint32_t subject) {
    OpenRequest* record = const_cast<OpenRequest*>(at(id));
    BF_CHECK(record);
    record->subject = subject;
  }

  void close(RequestId id) {
    OpenRequest* record = const_cast<OpenRequest*>(at(id));
    BF_CHECK(record);
    record->kind = RequestKind::none;
    free_.push_back(static_cast<std::uint32_t>(id.value & kIndexMask));
  }

 private:
  // Ids grow with time, so sorting completions of one instant by id sorts them by age.
  static constexpr unsigned kIndexBits = 22;
  static constexpr std::uint64_t kIndexMask = (std::uint64_t{1} << kIndexBits) - 1;

  static RequestId id_of(std::uint32_t index, const OpenRequest& record) {
    return RequestId(record.serial << kIndexBits | index);
  }
  const OpenRequest* at(RequestId id) const {
    const std::uint64_t index = id.value & kIndexMask;
    if (index >= records_.size()) return nullptr;
    const OpenRequest& record = records_[index];
    const bool open = record.kind != RequestKind::none && record.serial == id.value >> kIndexBits;
    return open ? &record : nullptr;
  }

  std::vector<OpenRequest> records_;
  std::vector<std::uint32_t> free_;
  std::uint64_t serial_ = 0;
};

}  // namespace batchflow::engine
