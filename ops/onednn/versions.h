// The differences between oneDNN 2 and oneDNN 3, so that all other sources are written once. Internal: it includes
// oneDNN.
//
// Everything here is a template that asks the headers for a member instead of the preprocessor for a version. A branch
// that is not taken depends on a template parameter, and is therefore never compiled.
#pragma once

#include <cstdint>
#include <dnnl.hpp>
#include <limits>

namespace belfry::ops::onednn {

// True with oneDNN 2, which describes an operation by a `desc` of the primitive's class. oneDNN 3 has none.
template <class Primitive>
concept HasOperationDesc = requires {
  typename Primitive::desc;
};

// The surroundings of an operation: everything that its arguments do not say.
struct Target {
  const dnnl::engine& engine;
  dnnl::primitive_attr attributes = {};
  bool allow_empty = false;  // returns an empty descriptor if the library has no implementation, instead of throwing
};

template <class Desc>
dnnl::memory::data_type DataTypeOf(const Desc& desc) {
  if constexpr (requires { desc.data_type(); }) {
    return desc.data_type();
  } else {
    return desc.get_data_type();
  }
}

template <class Desc>
dnnl::memory::dims DimsOf(const Desc& desc) {
  if constexpr (requires { desc.dims(); }) {
    return desc.dims();
  } else {
    return desc.get_dims();
  }
}

// Throws dnnl::error for a tensor with an extent that the library, which keeps extents in 32 bits in many places, would
// cut: it would divide by 0, or compute a part.
inline void CheckExtents(const dnnl::memory::desc& desc) {
  for (const dnnl::memory::dim extent : DimsOf(desc)) {
    if (extent > std::numeric_limits<int32_t>::max()) {
      throw dnnl::error(dnnl_invalid_arguments, "an extent is larger than 2147483647, the library's largest");
    }
  }
}
template <class Other>
void CheckExtents(const Other& /*not a tensor*/) {}

// The descriptor of a forward primitive or a product. `arguments` are those of oneDNN 3 between engine and attributes,
// which are those of oneDNN 2's `desc`. Throws dnnl::error.
template <class Primitive, class... Arguments>
typename Primitive::primitive_desc Describe(const Target& target, const Arguments&... arguments) {
  using Desc = typename Primitive::primitive_desc;
  (CheckExtents(arguments), ...);
  if constexpr (HasOperationDesc<Primitive>) {
    return Desc(typename Primitive::desc(arguments...), target.attributes, target.engine, target.allow_empty);
  } else {
    return Desc(target.engine, arguments..., target.attributes, target.allow_empty);
  }
}

// The same of a backward primitive, for which the library takes the descriptor of the forward primitive.
template <class Primitive, class Forward, class... Arguments>
typename Primitive::primitive_desc DescribeBackward(const Target& target, const Forward& forward,
                                                    const Arguments&... arguments) {
  using Desc = typename Primitive::primitive_desc;
  (CheckExtents(arguments), ...);
  if constexpr (HasOperationDesc<Primitive>) {
    return Desc(typename Primitive::desc(arguments...), target.attributes, target.engine, forward, target.allow_empty);
  } else {
    return Desc(target.engine, arguments..., forward, target.attributes, target.allow_empty);
  }
}

// The descriptor of a forward primitive whose result has the descriptor of its input, such as LRN and the functions of
// one argument. oneDNN 3 takes it for each of them.
template <class Primitive, class... Parameters>
typename Primitive::primitive_desc DescribeAlike(const Target& target, dnnl::prop_kind kind, dnnl::algorithm algorithm,
                                                 const dnnl::memory::desc& data, const Parameters&... parameters) {
  if constexpr (HasOperationDesc<Primitive>) {
    return Describe<Primitive>(target, kind, algorithm, data, parameters...);
  } else {
    return Describe<Primitive>(target, kind, algorithm, data, data, parameters...);
  }
}

// The same of its backward primitive, whose gradients have that descriptor, too.
template <class Primitive, class Forward, class... Parameters>
typename Primitive::primitive_desc DescribeBackwardAlike(const Target& target, const Forward& forward,
                                                         dnnl::algorithm algorithm, const dnnl::memory::desc& data,
                                                         const Parameters&... parameters) {
  if constexpr (HasOperationDesc<Primitive>) {
    return DescribeBackward<Primitive>(target, forward, algorithm, data, data, parameters...);
  } else {
    return DescribeBackward<Primitive>(target, forward, algorithm, data, data, data, parameters...);
  }
}

// A window of pooling, without dilation.
struct PoolWindow {
  dnnl::memory::dims strides, size, pads_low, pads_high;
};

// Returns describe(arguments...) with the window as the library takes it; oneDNN 3 has dilations in between.
template <class Primitive, class Function>
typename Primitive::primitive_desc WithWindow(const PoolWindow& w, const Function& describe) {
  if constexpr (HasOperationDesc<Primitive>) {
    return describe(w.strides, w.size, w.pads_low, w.pads_high);
  } else {
    const dnnl::memory::dims dense(w.size.size(), 0);
    return describe(w.strides, w.size, dense, w.pads_low, w.pads_high);
  }
}

// Appends y = algorithm(y); oneDNN 2 has a factor for y, which is 1 here.
template <class Ops>
void AppendEltwise(Ops& ops, dnnl::algorithm algorithm, float alpha, float beta) {
  if constexpr (requires { ops.append_eltwise(1.0f, algorithm, alpha, beta); }) {
    ops.append_eltwise(1.0f, algorithm, alpha, beta);
  } else {
    ops.append_eltwise(algorithm, alpha, beta);
  }
}

}  // namespace belfry::ops::onednn
