#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/check.h"
#include "core/order/keys.h"
#include "runtime/prepare/clip_worker.h"
#include "runtime/prepare/joint_worker.h"
#include "runtime/prepare/kept_sample.h"
#include "runtime/prepare/kernels.h"
#include "runtime/prepare/picture_worker.h"
#include "runtime/prepare/pipeline.h"
#include "runtime/prepare/write_field.h"
#include "runtime/sources/record.h"

namespace batchflow::prepare {
namespace {

// The names of pictures in records that other programs have written.
constexpr std::array<std::string_view, 12> kPictureParts = {
    "image",         "jpg",  "jpeg", "png", "img",  "bytes",
    "image/encoded", "webp", "bmp",  "tif", "tiff", "avif"};

class WorkerPreparer final : public Preparer {
 public:
  WorkerPreparer(const Kernels& kernels, std::shared_ptr<memory::ScratchBudget> scratch)
      : scratch_(std::move(scratch)), pictures_(kernels, plugins_, scratch_) {}

  Prepared prepare(const Pipeline& pipeline, const Input& input, const batch::BlockWriter& out,
                   std::uint32_t index, const KeepDecoded* keep_decoded) override {
    const auto& compiled = static_cast<const CompiledPipeline&>(pipeline);
    end_sample();
    plugins_.begin_sample(input.sample);
    const step::StepRunner::Ahead* const ahead = made_ahead(compiled, input);
    const bool done =
        (ahead                       ? true
         : !compiled.joint().empty() ? joint(compiled, input, out, index, keep_decoded)
         : compiled.clip()           ? clip(compiled, input, out, index, keep_decoded)
         : compiled.picture()        ? picture(compiled, input, out, index, keep_decoded)
                                     : numbers(compiled, input, out, index)) &&
        by_plugins(compiled, input, out, index, keep_decoded, ahead) &&
        label(compiled, input, out, index);
    if (done) return Prepared::done;
    const bool given_up = input.is_given_up && *input.is_given_up;
    return plugins_.failed() || given_up ? Prepared::failed : Prepared::corrupt;
  }

  void expect(const Pipeline& pipeline, std::vector<Input> next) override {
    expected_of_ = &pipeline;
    expected_ = std::move(next);
    at_expected_ = 0;
    ahead_.clear();
  }

  std::string_view problem() const override { return problem_; }
  void end_steps() override { plugins_.end_given_up(); }

  void end_sample() override {
    pictures_.end();
    clips_.end();
    const Bytes held = pictures_.held() + clips_.held() + parts_.held() + sounds_.held() +
                       before_plugins_.bytes() + joint_.held();
    if (scratch_.is_large() || held > scratch_.limits().small_sample_most()) {
      pictures_.drop();
      clips_.drop();
      parts_.drop();
      sounds_.drop();
      before_plugins_.drop();
      joint_.drop();
    }
    scratch_.give_back();
  }

 private:
  bool picture(const CompiledPipeline& pipeline, const Input& input, const batch::BlockWriter& out,
               std::uint32_t index, const KeepDecoded* keep_decoded) {
    std::span<const std::byte> bytes = input.bytes;
    if (!input.decoded && pipeline.kind() != sources::RecordKind::whole) {
      if (!parts_.find_without_numbers(pipeline.kind(), input.bytes, pipeline.stored()))
        return fail(parts_.problem());
      const sources::Part* part = picture_part(pipeline);
      if (!part) return fail("it holds no picture");
      bytes = part->bytes;
    }
    PictureWorker::Input picture;
    picture.bytes = bytes;
    picture.decoded = input.decoded;
    picture.keep = keep_decoded;
    picture.beside = beside(pipeline, input);
    return run_picture(pipeline, input, picture, out, index);
  }

  bool run_picture(const CompiledPipeline& pipeline, const Input& input,
                   PictureWorker::Input& picture, const batch::BlockWriter& out,
                   std::uint32_t index) {
    picture.draw_key = input.draw_key;
    picture.is_given_up = input.is_given_up;
    if (!pipeline.views().empty())
      return pictures_.run_views(pipeline, picture, out, index) || fail(pictures_.problem());
    const PicturePlan& plan = *pipeline.picture();
    std::byte* row =
        pipeline.afterwards() ? before_plugins(pipeline).row(0, 0) : out.row(plan.field, index);
    return pictures_.run(plan, picture, row) || fail(pictures_.problem());
  }

  // Frames of a group, each as a picture.
  bool clip(const CompiledPipeline& pipeline, const Input& input, const batch::BlockWriter& out,
            std::uint32_t index, const KeepDecoded* keep_decoded) {
    ClipWorker::Input group{.bytes = input.bytes,
                            .decoded = input.decoded,
                            .draw_key = input.draw_key,
                            .keep = keep_decoded,
                            .beside = beside(pipeline, input),
                            .is_given_up = input.is_given_up};
    if (!input.decoded) {
      if (!parts_.find_without_numbers(pipeline.kind(), input.bytes, pipeline.stored()))
        return fail(parts_.problem());
      group.bytes = parts_.parts().front().bytes;
    }
    std::byte* const row = pipeline.afterwards() ? before_plugins(pipeline).row(0, 0)
                                                 : out.row(pipeline.picture()->field, index);
    return clips_.run(pipeline, group, pictures_, row) || fail(clips_.problem());
  }

  // Several fields: the picture and its masks, then what was done to them is done to the others.
  bool joint(const CompiledPipeline& pipeline, const Input& input, const batch::BlockWriter& out,
             std::uint32_t index, const KeepDecoded* keep_decoded) {
    KeptSample kept;
    kept.record = input.bytes;
    if (input.decoded && !read_kept_sample(input.bytes, kept))
      return fail("the decoded form is damaged");
    const sources::RecordKind kind = pipeline.kind();
    if (!parts_.find_without_numbers(kind, kept.record, pipeline.stored()))
      return fail(parts_.problem());
    const Bytes numbers = parts_.numbers_bytes(kind, kept.record);
    if (!joint_.begin(pipeline, parts_, numbers, out, index)) return fail(joint_.problem());
    const Bytes besides =
        memory::counted_sum(beside(pipeline, input), memory::counted_sum(numbers, joint_.needs()));
    if (pipeline.picture()) {
      if (!joint_picture(pipeline, input, kept, besides, out, index, keep_decoded)) return false;
    } else if (!scratch_.take(besides)) {
      return fail(scratch_.problem());
    }
    if (numbers > 0) {
      parts_.reserve_numbers(numbers);
      if (!parts_.find(kind, kept.record, pipeline.stored())) return fail(parts_.problem());
    }
    const bool followed = pipeline.picture() && pipeline.views().empty();
    return joint_.write(
               pipeline, parts_, followed ? pictures_.followed() : std::span<const Operation>(),
               followed ? pictures_.stored_extent() : Extent2{}, input.draw_key, out, index) ||
           fail(joint_.problem());
  }

  bool joint_picture(const CompiledPipeline& pipeline, const Input& input, const KeptSample& kept,
                     Bytes besides, const batch::BlockWriter& out, std::uint32_t index,
                     const KeepDecoded* keep_decoded) {
    PictureWorker::Input picture;
    picture.bytes = kept.picture;
    picture.decoded = input.decoded;
    if (!input.decoded) {
      const bool is_whole = pipeline.kind() == sources::RecordKind::whole;
      const sources::Part* const part = is_whole ? nullptr : picture_part(pipeline);
      if (!is_whole && !part) return fail("it holds no picture");
      picture.bytes = is_whole ? kept.record : part->bytes;
    }
    picture.beside = besides;
    picture.is_followed = true;
    picture.masks = joint_.masks();
    picture.stored_extent = kept.stored_extent;
    // The record stays behind the picture that is kept: other fields are read from it.
    std::byte* behind = nullptr;
    const KeepDecoded keep = [&](Bytes bytes) {
      std::byte* const stays = (*keep_decoded)(bytes + kept_sample_more(kept.record));
      behind = stays ? stays + bytes : nullptr;
      return stays;
    };
    if (keep_decoded) picture.keep = &keep;
    if (!run_picture(pipeline, input, picture, out, index)) return false;
    if (behind) write_kept_sample(kept.record, pictures_.stored_extent(), behind);
    return true;
  }

  const sources::Part* picture_part(const CompiledPipeline& pipeline) const {
    if (!pipeline.part().empty()) return parts_.part(pipeline.part());
    if (pipeline.kind() == sources::RecordKind::value) return &parts_.parts().front();
    for (const std::string_view name : kPictureParts)
      if (const sources::Part* part = parts_.part(name)) return part;
    return nullptr;
  }

  // What a sample takes beside its picture or numbers.
  static Bytes beside(const CompiledPipeline& pipeline, const Input& input) {
    return memory::counted_sum(input.beside,
                               pipeline.afterwards() ? pipeline.afterwards()->layout.bytes : 0);
  }

  bool find_parts(const CompiledPipeline& pipeline, const Input& input) {
    // A small bound need not be computed more exactly.
    Bytes numbers = sources::RecordParts::numbers_most(pipeline.kind(), input.bytes.size());
    if (numbers > scratch_.limits().small_sample_most() / 2)
      numbers = parts_.numbers_bytes(pipeline.kind(), input.bytes);
    if (!scratch_.take(memory::counted_sum(numbers, beside(pipeline, input))))
      return fail(scratch_.problem());
    parts_.reserve_numbers(numbers);
    return parts_.find(pipeline.kind(), input.bytes, pipeline.stored()) || fail(parts_.problem());
  }

  // The parts, and the sound's header, which says what it takes.
  bool find_sound(const CompiledPipeline& pipeline, const Input& input) {
    const sources::RecordKind kind = pipeline.kind();
    if (!parts_.find_without_numbers(kind, input.bytes, pipeline.stored()))
      return fail(parts_.problem());
    const Bytes numbers = parts_.numbers_bytes(kind, input.bytes);
    const NumbersPlan& plan = *std::find_if(pipeline.numbers().begin(), pipeline.numbers().end(),
                                            [](const NumbersPlan& one) { return one.sound; });
    const auto open = [&] {
      const sources::Part* const part = parts_.part(plan.stored.name);
      if (!part) return fail(fmt::format("it has no field '{}'", plan.stored.name));
      return sounds_.open(*plan.sound, part->bytes) || fail(sounds_.problem());
    };
    if (!open()) return false;
    if (!scratch_.take(memory::counted_sum(memory::counted_sum(numbers, sounds_.needs(*plan.sound)),
                                           beside(pipeline, input))))
      return fail(scratch_.problem());
    if (numbers == 0) return true;
    parts_.reserve_numbers(numbers);
    return parts_.find(kind, input.bytes, pipeline.stored()) ? open() : fail(parts_.problem());
  }

  // Whether samples go through the first step several at once: functions on numbers.
  static bool goes_ahead(const CompiledPipeline& pipeline) {
    const std::optional<Afterwards>& plugins = pipeline.afterwards();
    if (!plugins || pipeline.picture() || pipeline.numbers().size() != 1) return false;
    const step::StepPlugin& first = *plugins->steps.front().plugin;
    return pipeline.numbers().front().field == plugins->field && !pipeline.has_sound() &&
           !plugins->before.fields[0].ragged && !first.declared().output.ragged;
  }

  // What the first step has made of the sample ahead of its turn; null: nothing.
  const step::StepRunner::Ahead* made_ahead(const CompiledPipeline& pipeline, const Input& input) {
    if (expected_of_ != &pipeline || input.decoded || !goes_ahead(pipeline)) return nullptr;
    while (at_expected_ < expected_.size() && !is(expected_[at_expected_], input)) ++at_expected_;
    if (at_expected_ == expected_.size()) return nullptr;
    const auto find = [&] {
      const auto found = std::find_if(ahead_.begin(), ahead_.end(), [&](const auto& one) {
        return one.sample == input.sample && one.draw_key == input.draw_key;
      });
      return found == ahead_.end() ? nullptr : &*found;
    };
    const step::StepRunner::Ahead* found = find();
    if (!found && go_ahead(pipeline)) found = find();
    ++at_expected_;
    return found;
  }

  static bool is(const Input& one, const Input& other) {
    return one.sample == other.sample && one.draw_key == other.draw_key;
  }

  // Takes the samples from this one on through the first step.
  bool go_ahead(const CompiledPipeline& pipeline) {
    const Afterwards& plan = *pipeline.afterwards();
    const Afterwards::PlannedStep& first = plan.steps.front();
    const batch::Field& given = plan.before.fields[0];
    const Bytes output = first.plugin->declared().output.row_bytes();
    ahead_.clear();
    const std::size_t most = std::min(expected_.size() - at_expected_,
                                      plugins_.ahead_most(first.plugin, given.row_bytes(), output));
    for (std::size_t i = 0; most > 1 && i < most; ++i) {
      const Input& next = expected_[at_expected_ + i];
      if (next.decoded || !numbers_before(pipeline, next)) break;  // its own turn says why
      scratch_.give_back();
      const std::byte* const from = before_plugins_.data() + plan.layout.fields[0].values;
      ahead_.push_back({next.sample,
                        next.draw_key,
                        order::step_seed(next.draw_key, first.draw),
                        std::vector<std::byte>(from, from + given.row_bytes()),
                        {},
                        Duration{0}});
    }
    if (ahead_.size() > 1 && plugins_.run_ahead(first.plugin, given.shape, ahead_, output))
      return true;
    ahead_.clear();
    return false;
  }

  // Puts the one field that the first step works on into memory for it.
  bool numbers_before(const CompiledPipeline& pipeline, const Input& input) {
    if (!find_parts(pipeline, input)) return false;
    const NumbersPlan& plan = pipeline.numbers().front();
    const sources::Part* part = parts_.part(plan.stored.name);
    return part && write_field(plan, pipeline.afterwards()->before.fields[0], *part,
                               before_plugins(pipeline), 0, 0);
  }

  bool numbers(const CompiledPipeline& pipeline, const Input& input, const batch::BlockWriter& out,
               std::uint32_t index) {
    if (input.decoded) return true;  // plugins go on from there
    if (pipeline.has_sound() ? !find_sound(pipeline, input) : !find_parts(pipeline, input))
      return false;
    for (const NumbersPlan& plan : pipeline.numbers()) {
      const sources::Part* part = parts_.part(plan.stored.name);
      // If no fields are named, each sample has those that it has.
      const sources::Part none{plan.stored.name, plan.stored.type, {}};
      if (!part && plan.stored.ragged && pipeline.part().empty()) part = &none;
      if (!part) return fail(fmt::format("it has no field '{}'", plan.stored.name));
      const std::optional<Afterwards>& plugins = pipeline.afterwards();
      const bool is_before_plugins = plugins && plugins->field == plan.field;
      if (plan.sound) {
        if (!(is_before_plugins
                  ? sounds_.write(*plan.sound, input.draw_key, plugins->before.fields[0],
                                  before_plugins(pipeline), 0, 0)
                  : sounds_.write(*plan.sound, input.draw_key, pipeline.spec().fields[plan.field],
                                  out, plan.field, index)))
          return fail(sounds_.problem());
        continue;
      }
      const bool done = is_before_plugins ? write_field(plan, plugins->before.fields[0], *part,
                                                        before_plugins(pipeline), 0, 0)
                                          : write_field(plan, pipeline.spec().fields[plan.field],
                                                        *part, out, plan.field, index);
      if (!done)
        return fail(fmt::format("field '{}' has {} bytes", plan.stored.name, part->bytes.size()));
    }
    return true;
  }

  // Memory for the field that plugins work on, as the other steps make it.
  batch::BlockWriter before_plugins(const CompiledPipeline& pipeline) {
    const batch::BlockLayout& layout = pipeline.afterwards()->layout;
    return {layout, before_plugins_.have(layout.bytes)};
  }

  bool by_plugins(const CompiledPipeline& pipeline, const Input& input,
                  const batch::BlockWriter& out, std::uint32_t index,
                  const KeepDecoded* keep_decoded, const step::StepRunner::Ahead* ahead) {
    if (!pipeline.afterwards()) return true;
    const Afterwards& plan = *pipeline.afterwards();
    const batch::Field* given = &plan.before.fields[0];
    const batch::BlockLayout::FieldLayout& where = plan.layout.fields[0];
    const std::byte* from = nullptr;
    std::uint64_t rows = 1;
    std::size_t first = 0;
    if (plan.kept > 0 && input.decoded) {
      first = plan.kept;
      given = &plan.steps[first - 1].plugin->declared().output;
      from = input.bytes.data();
      if (input.bytes.size() < given->row_bytes()) return fail("the kept form is damaged");
    } else {
      from = before_plugins_.data() + where.values;
      if (where.ragged)
        std::memcpy(&rows, before_plugins_.data() + where.offsets + sizeof rows, sizeof rows);
    }
    for (std::size_t i = first; i < plan.steps.size(); ++i) {
      const Afterwards::PlannedStep& one = plan.steps[i];
      if (input.is_given_up && *input.is_given_up) return fail(kGivenUp);
      const batch::Field& made = one.plugin->declared().output;
      if (ahead && i == 0) {
        from = plugins_.take_ahead(one.plugin, *ahead);
      } else {
        const Bytes bytes = given->row_bytes() * rows;
        std::byte* in = plugins_.begin(one.plugin, bytes, made.row_bytes() * made.rows_most());
        if (!in) return fail(plugins_.problem());
        std::memcpy(in, from, bytes);
        shape_ = given->shape;
        if (given->ragged) shape_[0] = rows;
        from = plugins_.run(shape_, order::step_seed(input.draw_key, one.draw));
      }
      if (!from) return fail(plugins_.problem());
      given = &made;
      rows = made.ragged ? plugins_.rows() : 1;
      if (keep_decoded && i + 1 == plan.kept)
        if (std::byte* const stays = (*keep_decoded)(made.row_bytes()))
          std::memcpy(stays, from, made.row_bytes());
    }
    std::byte* const to =
        given->ragged ? out.begin_rows(plan.field, index) : out.row(plan.field, index);
    std::memcpy(to, from, given->row_bytes() * rows);
    if (given->ragged) out.end_rows(plan.field, index, rows);
    return true;
  }

  bool label(const CompiledPipeline& pipeline, const Input& input, const batch::BlockWriter& out,
             std::uint32_t index) {
    if (!pipeline.label_field()) return true;
    if (input.label < 0) return fail("it has no label");
    std::memcpy(out.row(*pipeline.label_field(), index), &input.label, sizeof input.label);
    return true;
  }

  bool fail(std::string_view problem) {
    problem_ = problem;
    return false;
  }

  SampleScratch scratch_;  // first: it outlives what is taken of it
  step::StepRunner plugins_;
  PictureWorker pictures_;
  sources::RecordParts parts_;
  ClipWorker clips_;
  SoundWorker sounds_;
  JointWorker joint_;
  memory::ScratchMemory before_plugins_;
  std::vector<std::uint64_t> shape_;  // of a sample, for plugins
  const Pipeline* expected_of_ = nullptr;
  std::vector<Input> expected_;
  std::size_t at_expected_ = 0;                 // all before it were had
  std::vector<step::StepRunner::Ahead> ahead_;  // of these, in their order
  std::string problem_;
};

}  // namespace

std::unique_ptr<Preparer> make_preparer(std::shared_ptr<memory::ScratchBudget> scratch) {
  return make_preparer(best_kernels(), std::move(scratch));
}

std::unique_ptr<Preparer> make_preparer(const Kernels& kernels,
                                        std::shared_ptr<memory::ScratchBudget> scratch) {
  if (!scratch) scratch = std::make_shared<memory::ScratchBudget>(memory::ScratchLimits{});
  return std::make_unique<WorkerPreparer>(kernels, std::move(scratch));
}

}  // namespace batchflow::prepare
