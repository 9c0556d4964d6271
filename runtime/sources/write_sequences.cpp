#include "runtime/sources/write_sequences.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "core/order/keys.h"
#include "runtime/sources/columns.h"
#include "runtime/sources/kept_folder.h"
#include "runtime/sources/path_ranges.h"
#include "runtime/sources/sequence_record.h"

namespace batchflow::sources {
namespace {

using batch::ElementType;

// So many bytes of sequences are put together at a time, so that what is read of a file for them is
// read in the order in which it lies.
constexpr Bytes kTogether = Bytes{32} << 20;
constexpr std::size_t kPiecesTogether = std::size_t{1} << 18;
// How many documents a drive is told of before they are read.
constexpr std::size_t kAhead = 64;
constexpr Bytes kNear = 128 << 10;
// Where so many documents begin within so many bytes, one read of all is cheaper than one of each.
constexpr std::size_t kCrowd = 5;
constexpr Bytes kCrowdBytes = 16 << 10;

template <class Number, class Stored>
std::optional<std::int64_t> copy_numbers(std::span<const std::byte> from, std::byte* to) {
  for (std::size_t at = 0; at < from.size(); at += sizeof(Number), to += sizeof(Stored)) {
    const auto number = load<Number>(from, at);
    const auto stored = static_cast<Stored>(number);
    if (static_cast<std::int64_t>(stored) != static_cast<std::int64_t>(number)) return number;
    std::memcpy(to, &stored, sizeof stored);
  }
  return std::nullopt;
}

// Answers a number that does not fit; none: all do.
template <class Stored>
std::optional<std::int64_t> copy_tokens(ElementType type, std::span<const std::byte> from,
                                        std::byte* to) {
  switch (type) {
    case ElementType::u8:
      return copy_numbers<std::uint8_t, Stored>(from, to);
    case ElementType::i8:
      return copy_numbers<std::int8_t, Stored>(from, to);
    case ElementType::u16:
      return copy_numbers<std::uint16_t, Stored>(from, to);
    case ElementType::i16:
      return copy_numbers<std::int16_t, Stored>(from, to);
    case ElementType::i32:
      return copy_numbers<std::int32_t, Stored>(from, to);
    default:
      return copy_numbers<std::int64_t, Stored>(from, to);
  }
}

class SequenceWriter {
 public:
  SequenceWriter(const SampleIndex& documents, const DataRoot& root, const SequenceRule& rule,
                 std::uint64_t length, const StopAsked& stop, const IndexProgress& progress)
      : documents_(documents),
        root_(root),
        rule_(rule),
        type_(documents.stored_fields().fields[0].type),
        stop_(stop),
        progress_(progress) {
    shape_.length = length;
    shape_.whole = rule.packing != "concat";
    shape_.rows = rule.rows;
    const bool narrow = (type_ == ElementType::u8 || type_ == ElementType::u16) &&
                        rule.end_token.value_or(0) <= UINT16_MAX;
    shape_.wide = !narrow;
    width_ = shape_.wide ? sizeof(std::int32_t) : sizeof(std::uint16_t);
  }

  SequenceCounts write(const PackOptions& options) {
    find_sources();
    count();
    const std::string about = fmt::format(
        "{} documents with {} tokens are packed into sequences of {} ({}){}{}{}{}",
        counts_.documents, counts_.tokens, shape_.length, rule_.packing,
        counts_.unused > 0
            ? fmt::format("; {} documents are not used, since a source of the mixture "
                          "had no more",
                          counts_.unused)
            : "",
        counts_.empty > 0 ? fmt::format("; {} empty documents are skipped", counts_.empty) : "",
        counts_.cut > 0 ? fmt::format("; {} documents are longer than a sequence", counts_.cut)
                        : "",
        counts_.left_out > 0
            ? fmt::format("; the last {} tokens are less than a sequence and left out",
                          counts_.left_out)
            : "");
    const std::string by_rule =
        fmt::format("documents {:016x}, {}", documents_.version(), rule_.text(shape_.length));
    copies_at_ = options.folder / ".objects";
    PackWriter writer(options, stored_sequence(shape_), {about, by_rule});
    SequencePlan plan([this](std::uint64_t document) { return tokens_of(document); },
                      documents_.samples(), documents_.version(), rule_, shape_.length, ranges_);
    // Ends before `writer` does, also where reading fails. Its error comes out of get().
    std::future<void> writing;
    while (find_next(plan)) {
      put_together();
      if (writing.valid()) writing.get();
      std::swap(together_, written_);
      writing = std::async([this, &writer] { add_all(writer); });
    }
    if (writing.valid()) writing.get();
    close_file();
    counts_.sequences = writer.records();
    writer.close();
    std::error_code error;
    std::filesystem::remove_all(copies_at_, error);
    return counts_;
  }

 private:
  struct Wanted {  // of a file, for one place of what is put together
    Extent extent;
    std::uint64_t document;
    std::size_t to;
  };

  // Sequences that are put together at a time, and their tokens.
  struct Together {
    std::vector<std::vector<DocumentPiece>> sequences;
    std::vector<std::byte> tokens;
  };

  Bytes row_bytes() const { return shape_.places() * width_; }
  std::uint64_t tokens_of(std::uint64_t document) const {
    return documents_.extent(SampleId(document)).bytes / batch::element_bytes(type_);
  }
  std::string named(std::uint64_t document) const {
    return fmt::format("{}: document {} ({})", documents_.name(), document,
                       documents_.sample_name(SampleId(document)));
  }

  void look_around(std::uint64_t done) const {
    if (stop_ && stop_())
      throw DatasetError(
          fmt::format("{}: stopped while it was being packed into sequences", documents_.name()));
    if (progress_) progress_(done, counts_.tokens, "tokens packed");
  }

  // Where the documents of a mixture lie.
  void find_sources() {
    std::string problem;
    for (const WeighedDocuments& one : documents_to_mix(rule_.mixture, problem)) {
      weights_.push_back(one.weight);
      ranges_.push_back(samples_at(documents_, one.name));
      if (ranges_.back().samples == 0)
        throw DatasetError(fmt::format(
            "{}: it has nothing at '{}'; a source of a mixture is a folder or a file at "
            "its root: {}",
            documents_.name(), one.name, names_at_root(documents_, 20)));
    }
    std::vector<SampleRange> sorted = ranges_;
    std::sort(sorted.begin(), sorted.end(),
              [](const SampleRange& a, const SampleRange& b) { return a.first < b.first; });
    for (std::size_t i = 1; i < sorted.size(); ++i) {
      if (sorted[i].first.value < sorted[i - 1].first.value + sorted[i - 1].samples)
        throw DatasetError(fmt::format("{}: two sources of the mixture have documents in common",
                                       documents_.name()));
    }
  }

  std::uint64_t whole_tokens_of(std::uint64_t document) const {
    const std::uint64_t tokens = tokens_of(document);
    return tokens == 0 ? 0 : tokens + (rule_.end_token ? 1 : 0);
  }

  void count(std::uint64_t document) {
    if (counts_.documents++ % 65'536 == 0) look_around(0);
    const Bytes each = batch::element_bytes(type_);
    const Bytes bytes = documents_.extent(SampleId(document)).bytes;
    if (bytes % each != 0)
      throw DatasetError(fmt::format("{}: its {} bytes are no whole number of tokens of {} bytes",
                                     named(document), bytes, each));
    const std::uint64_t tokens = whole_tokens_of(document);
    counts_.tokens += tokens;
    counts_.empty += tokens == 0 ? 1 : 0;
    counts_.cut += tokens > shape_.length ? 1 : 0;
  }

  void count() {
    if (ranges_.empty()) {
      for (std::uint64_t document = 0; document < documents_.samples(); ++document) count(document);
    } else {
      DocumentOrder order(order::documents_key(documents_.version(), rule_.seed), ranges_, weights_,
                          [this](std::uint64_t document) { return whole_tokens_of(document); });
      while (const auto document = order.next()) count(*document);
      counts_.unused = documents_.samples() - counts_.documents;
    }
    if (!shape_.whole) counts_.left_out = counts_.tokens % shape_.length;
    if (counts_.tokens == 0)
      throw DatasetError(
          fmt::format("{}: all {} documents are empty", documents_.name(), counts_.documents));
    if (!shape_.whole && counts_.tokens < shape_.length)
      throw DatasetError(
          fmt::format("{}: its documents have {} tokens together, and a sequence {}; "
                      "write tokens={} or fewer",
                      documents_.name(), counts_.tokens, shape_.length, counts_.tokens));
  }

  // False: there are no more.
  bool find_next(SequencePlan& plan) {
    std::vector<DocumentPiece> pieces;
    std::size_t of_all = 0;
    together_.sequences.clear();
    while (together_.sequences.size() * row_bytes() < kTogether && of_all < kPiecesTogether &&
           plan.next(pieces)) {
      together_.sequences.push_back(pieces);
      of_all += pieces.size();
    }
    return of_all > 0;
  }

  void put_together() {
    look_around(done_);
    together_.tokens.assign(together_.sequences.size() * row_bytes(), std::byte{0});
    wanted_.clear();
    std::size_t row = 0;
    for (const auto& pieces : together_.sequences) {
      std::size_t to = row;
      for (const DocumentPiece& piece : pieces) {
        if (piece.document != DocumentPiece::kGap) {
          want(piece, to);
          done_ += piece.tokens;
        }
        to += piece.tokens * width_;
      }
      row += row_bytes();
    }
    std::sort(wanted_.begin(), wanted_.end(), [](const Wanted& a, const Wanted& b) {
      return std::pair(a.extent.file, a.extent.offset) < std::pair(b.extent.file, b.extent.offset);
    });
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      if (!file_ || open_ != wanted_[i].extent.file) open(wanted_[i].extent.file);
      expect(i + kAhead);
      if (is_copy() && !is_crowd(i)) {
        file_->read(wanted_[i].extent.offset,
                    std::span(together_.tokens).subspan(wanted_[i].to, wanted_[i].extent.bytes));
      } else {
        read(wanted_[i]);
      }
    }
  }

  void want(const DocumentPiece& piece, std::size_t to) {
    const Bytes each = batch::element_bytes(type_);
    Extent extent = documents_.extent(SampleId(piece.document));
    const std::uint64_t stored = extent.bytes / each;
    const std::uint64_t last = std::min(piece.from + piece.tokens, stored);
    if (piece.from + piece.tokens > stored) {
      const std::uint32_t end = *rule_.end_token;
      std::memcpy(together_.tokens.data() + to + (piece.tokens - 1) * width_, &end, width_);
    }
    if (last <= piece.from) return;
    extent.offset += piece.from * each;
    extent.bytes = (last - piece.from) * each;
    wanted_.push_back({extent, piece.document, to});
  }

  // Documents that lie far apart are no run that the system would read ahead by itself.
  void expect(std::size_t next) const {
    if (next >= wanted_.size() || wanted_[next].extent.file != open_) return;
    const Extent& before = wanted_[next - 1].extent;
    const Extent& extent = wanted_[next].extent;
    if (before.file == open_ && extent.offset - before.offset < kNear) return;
    file_->will_be_read(extent.offset, extent.bytes);
  }

  // Whether tokens are stored as they lie in their files.
  bool is_copy() const { return type_ == (shape_.wide ? ElementType::i32 : ElementType::u16); }

  bool is_crowd(std::size_t first) const {
    const std::size_t last = first + kCrowd - 1;
    return last < wanted_.size() && wanted_[last].extent.file == open_ &&
           wanted_[last].extent.offset - wanted_[first].extent.offset < kCrowdBytes;
  }

  // Long documents are read bit by bit.
  void read(const Wanted& one) {
    constexpr Bytes kPiece = Bytes{1} << 20;
    const Bytes each = batch::element_bytes(type_);
    for (Bytes done = 0; done < one.extent.bytes;) {
      const auto bytes =
          file_->view(one.extent.offset + done, std::min<Bytes>(kPiece, one.extent.bytes - done));
      if (bytes.empty() || bytes.size() % each != 0)
        throw DatasetChanged(fmt::format("{}: it became shorter", named(one.document)));
      std::byte* const to = together_.tokens.data() + one.to + done / each * width_;
      const auto wrong = shape_.wide ? copy_tokens<std::int32_t>(type_, bytes, to)
                                     : copy_tokens<std::uint16_t>(type_, bytes, to);
      if (wrong)
        throw DatasetError(fmt::format("{}: it has the token {}, and tokens have 32 bits",
                                       named(one.document), *wrong));
      done += bytes.size();
    }
  }

  void open(std::uint32_t file) {
    close_file();
    file_.reset();
    if (root_.store) copy(file);
    file_ = root_.store ? std::make_unique<DatasetFile>(copies_.get(), std::to_string(file))
                        : std::make_unique<DatasetFile>(root_, documents_.path(file), false);
    if (file_->size() != documents_.file_bytes(file))
      throw DatasetChanged(fmt::format("{}: its size changed", documents_.path(file)));
    open_ = file;
  }
  // Of an object of a store, each document would be a request of its own.
  void copy(std::uint32_t file) {
    if (!copied_.insert(file).second) return;
    std::error_code error;
    std::filesystem::create_directory(copies_at_, error);
    if (!copies_)
      copies_ =
          protocol::Descriptor(::open(copies_at_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const protocol::Descriptor to(openat(copies_.get(), std::to_string(file).c_str(),
                                         O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!to) fail_to_write(copies_at_.string(), "an object cannot be copied to it");
    DatasetFile from(root_, documents_.path(file),
                     {documents_.file_bytes(file), documents_.file_mark(file)});
    constexpr Bytes kPiece = Bytes{8} << 20;
    for (Bytes at = 0; at < from.size();) {
      look_around(done_);
      const auto bytes = from.view(at, kPiece);
      write_all(to.get(), bytes, copies_at_.string());
      at += bytes.size();
    }
  }
  void close_file() const {
    if (file_) file_->check_unchanged();
  }

  // Runs beside put_together().
  void add_all(PackWriter& writer) {
    std::size_t row = 0;
    for (const auto& pieces : written_.sequences) {
      add(writer, pieces, std::span(written_.tokens).subspan(row, row_bytes()));
      row += row_bytes();
    }
  }

  void add(PackWriter& writer, std::span<const DocumentPiece> pieces,
           std::span<const std::byte> tokens) {
    if (!shape_.whole) {
      const std::span<const std::byte> values[] = {tokens};
      return writer.add(values);
    }
    lengths_.clear();
    for (const DocumentPiece& piece : pieces) {
      const auto length = static_cast<std::int32_t>(piece.tokens);
      lengths_.push_back(piece.document == DocumentPiece::kGap ? -length : length);
    }
    const std::span<const std::byte> values[] = {std::as_bytes(std::span(lengths_)), tokens};
    writer.add(values);
  }

  const SampleIndex& documents_;
  const DataRoot& root_;
  const SequenceRule& rule_;
  const ElementType type_;
  const StopAsked& stop_;
  const IndexProgress& progress_;
  SequenceShape shape_;
  Bytes width_ = 0;
  SequenceCounts counts_;
  std::vector<SampleRange> ranges_;  // of a mixture, with their weights
  std::vector<double> weights_;
  std::uint64_t done_ = 0;  // tokens
  Together together_;
  Together written_;  // meanwhile
  std::vector<Wanted> wanted_;
  std::vector<std::int32_t> lengths_;
  std::filesystem::path copies_at_;  // of objects of a store
  protocol::Descriptor copies_;
  std::set<std::uint32_t> copied_;
  std::unique_ptr<DatasetFile> file_;
  std::uint32_t open_ = 0;
};

}  // namespace

std::string no_documents(const SampleIndex& documents, bool may_be_bytes) {
  const auto& fields = documents.stored_fields().fields;
  if (documents.kind() != RecordKind::value)
    return fmt::format(
        "its samples are no documents of tokens; a document is a list of whole "
        "numbers, in a column of Arrow, Parquet or MDS, or in files of Megatron-LM");
  const batch::Field& field = fields.front();
  if (!is_whole(field.type))
    return fmt::format("its documents ('{}') are {}, and tokens are whole numbers", field.name,
                       batch::element_name(field.type));
  if (field.type == ElementType::u8 && !may_be_bytes)
    return fmt::format(
        "'{}' holds bytes or text; turn it into tokens first, or name the column "
        "that has them (column=input_ids)",
        field.name);
  if (field.shape.size() != 1)
    return fmt::format("its documents ('{}') have {} dimensions, and a document has one",
                       field.name, field.shape.size());
  return {};
}

SequenceCounts write_sequences(const SampleIndex& documents, const DataRoot& root,
                               const SequenceRule& rule, std::uint64_t length,
                               const PackOptions& options, const StopAsked& stop,
                               const IndexProgress& progress) {
  return SequenceWriter(documents, root, rule, length, stop, progress).write(options);
}

}  // namespace batchflow::sources
