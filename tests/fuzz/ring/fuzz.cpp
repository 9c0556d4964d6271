// A ring that another process has written: the first bytes of the input are its tail and its head,
// the others its records. Every record is read both as one to a job and as one from a job.
#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "core/base/byte_codec.h"
#include "core/base/check.h"
#include "core/order/index_set.h"
#include "runtime/protocol/records.h"
#include "runtime/protocol/ring.h"

namespace batchflow::test {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::uint64_t words[2] = {};
  const std::size_t head = std::min(size, sizeof words);
  std::memcpy(words, data, head);
  static std::vector<std::uint64_t> memory(protocol::kRingLeast / 8);
  const std::span<std::byte> records = std::as_writable_bytes(std::span(memory));
  const std::size_t copied = std::min(size - head, records.size());
  std::memcpy(records.data(), data + head, copied);
  std::memset(records.data() + copied, 0, std::min(records.size() - copied, std::size_t{4096}));

  protocol::RingWriterPage writer_page{};
  protocol::RingReaderPage reader_page{};
  writer_page.tail = words[0];
  reader_page.head = words[1];
  const protocol::RingMemory ring{&writer_page, &reader_page, records};
  protocol::RingReader reader(ring);
  protocol::ServiceMessage down;
  protocol::JobMessage up;
  std::string problem;
  std::uint64_t read = 0;
  while (const auto record = reader.next()) {
    BF_CHECK(++read <= protocol::kRingLeast / 8);
    if (protocol::read_service_record(*record, down, problem) &&
        down.kind == protocol::ServiceRecordKind::batch) {
      std::uint64_t samples = 0;
      for (const order::Slice& slice : down.own()) samples += slice.to - slice.from;
      BF_CHECK(samples == down.batch.samples && samples <= down.batch.slot_samples);
      std::vector<std::byte> again;
      std::vector<std::byte> indices;
      ByteWriter index_writer(indices);
      if (!down.indices.empty()) order::write_indices(down.indices, index_writer);
      protocol::write_batch(down.batch, down.slices, again, indices);
      BF_CHECK(again.size() == record->size() &&
               std::memcmp(again.data(), record->data(), again.size()) == 0);
    }
    if (protocol::read_job_record(*record, up, problem)) {
      BF_CHECK(up.scores.size() <= engine::kScoresMost);
      BF_CHECK(up.exemplars.size() <= protocol::kExemplarsInRecord);
    }
  }
  reader.free_read();

  protocol::RingWriter writer(ring);
  reader_page.head = words[1];
  const std::vector<std::byte> record(5000);
  while (writer.write(record)) {
  }
  writer.publish();
  BF_CHECK(!writer.write(record) && !writer.write({}) == writer.broken());
  return 0;
}

}  // namespace batchflow::test
