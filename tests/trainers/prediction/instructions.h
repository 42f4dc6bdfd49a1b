// Short names for the instructions of models that tests write down.
#pragma once

#include "trainers/prediction/step_model.h"

namespace belfry::prediction {

inline constexpr auto Kernel = ModelInstruction::Run;
inline constexpr auto Average = ModelInstruction::Collective;
inline constexpr auto Wait = ModelInstruction::Wait;
inline constexpr auto Record = ModelInstruction::Record;

}  // namespace belfry::prediction
