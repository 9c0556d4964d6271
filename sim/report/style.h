// How reports look, and the little that moves in them. Both are within the file.
#pragma once

namespace batchflow::sim {

extern const char* const kReportStyle;
// Says what the chart under the pointer shows at that place. It holds no `]]>`.
extern const char* const kReportScript;

}  // namespace batchflow::sim
