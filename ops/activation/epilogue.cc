#include "ops/activation/epilogue_impl.h"

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "ops/activation/activate_impl.h"
#include "ops/elementwise/elementwise_impl.h"

namespace belfry::ops {

std::vector<AttrDef> WithEpilogueAttrs(std::vector<AttrDef> attrs) {
  attrs.push_back({"activation", std::string("none")});
  attrs.push_back({"alpha", 0.0});
  return attrs;
}

absl::StatusOr<Epilogue> EpilogueOf(const Attrs& attrs) {
  const std::string& name = attrs.String("activation");
  for (const FusedActivation& known : kFusedActivations) {
    if (known.name == name) return Epilogue{known.activation, known.has_alpha ? attrs.Float("alpha") : 0};
  }
  return absl::InvalidArgumentError(absl::StrCat("activation '", name, "' cannot be fused"));
}

absl::Status CheckBias(const Shape& y, const Shape& bias) {
  if (bias.rank() == 1 && Shape({y[-1]}).CompatibleWith(bias)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the bias must have shape [", y[-1], "], not ", bias.ToString()));
}

KernelSpec WithoutBias(const KernelSpec& spec) {
  KernelSpec product = spec;
  product.inputs = spec.inputs.subspan(0, 2);
  product.constants = spec.constants.subspan(0, 2);
  return product;
}

ElementLoops ActivationLoops(const Epilogue& epilogue) {
  if (epilogue.activation == Activation::kNone) return {};
  return functor::VisitActivation<float>(epilogue.activation, epilogue.alpha,
                                         [](const auto& f) { return MapLoops<float>(f); });
}

template <class T>
Kernel ThenActivation(Kernel kernel, const KernelSpec& spec, const Epilogue& epilogue) {
  if (epilogue.activation == Activation::kNone) return kernel;
  const KernelSpec over_output{spec.name, spec.attrs, spec.outputs, spec.outputs, spec.device};
  Kernel activation = functor::VisitActivation<Compute<T>>(epilogue.activation, epilogue.alpha,
                                                           [&](const auto& f) { return MapKernel<T>(over_output, f); });
  kernel.run = [run = std::move(kernel.run), activation = std::move(activation.run)](const KernelContext& context) {
    RETURN_IF_ERROR(run(context));
    const void* const y = context.outputs[0];
    KernelContext over = context;
    over.inputs = &y;
    return activation(over);
  };
  return kernel;
}

template <class T>
Kernel ThenBiasAndActivation(Kernel product, const KernelSpec& spec, const Epilogue& epilogue) {
  using C = Compute<T>;
  const int64_t channels = spec.inputs[2].shape[0];
  const int64_t rows = spec.outputs[0].shape.elements(0, spec.outputs[0].shape.rank() - 1);
  const auto finish = [run = std::move(product.run), channels, rows](const KernelContext& context, const auto& apply) {
    RETURN_IF_ERROR(run(context));
    const T* bias = context.input<T>(2);
    T* y = context.output<T>(0);
    ParallelFor(rows, 4.0 * static_cast<double>(channels), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* to = y + row * channels;
        for (int64_t c = 0; c < channels; ++c) {
          to[c] = static_cast<T>(apply(static_cast<C>(to[c]) + static_cast<C>(bias[c])));
        }
      }
    });
    return absl::OkStatus();
  };
  if (epilogue.activation != Activation::kNone && !std::is_same_v<T, C>) {
    const functor::Activate<C> activate{epilogue.activation, static_cast<C>(epilogue.alpha)};
    return Kernel{[finish, activate](const KernelContext& context) { return finish(context, activate); },
                  product.workspace_bytes};
  }
  Kernel kernel{[finish](const KernelContext& context) { return finish(context, functor::Identity<C>()); },
                product.workspace_bytes};
  return ThenActivation<T>(std::move(kernel), spec, epilogue);
}

template Kernel ThenActivation<float>(Kernel kernel, const KernelSpec& spec, const Epilogue& epilogue);
template Kernel ThenActivation<double>(Kernel kernel, const KernelSpec& spec, const Epilogue& epilogue);
template Kernel ThenActivation<Half>(Kernel kernel, const KernelSpec& spec, const Epilogue& epilogue);
template Kernel ThenActivation<BFloat16>(Kernel kernel, const KernelSpec& spec, const Epilogue& epilogue);
template Kernel ThenBiasAndActivation<float>(Kernel product, const KernelSpec& spec, const Epilogue& epilogue);
template Kernel ThenBiasAndActivation<double>(Kernel product, const KernelSpec& spec, const Epilogue& epilogue);
template Kernel ThenBiasAndActivation<Half>(Kernel product, const KernelSpec& spec, const Epilogue& epilogue);
template Kernel ThenBiasAndActivation<BFloat16>(Kernel product, const KernelSpec& spec, const Epilogue& epilogue);

}  // namespace belfry::ops
