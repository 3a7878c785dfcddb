#include "core/nn/module.h"

namespace twofold::nn {
namespace {

std::string Join(std::string_view prefix, std::string_view name) {
  if (prefix.empty()) return std::string(name);
  if (name.empty()) return std::string(prefix);
  return std::string(prefix) + "." + std::string(name);
}

}  // namespace

std::vector<Parameter*> Module::Parameters() const {
  std::vector<Parameter*> all;
  for (const auto& p : parameters_) all.push_back(p.get());
  for (const NamedChild& child : children_) {
    // Shared parameters are only in their owner's list.
    for (Parameter* p : child.module->Parameters()) all.push_back(p);
  }
  return all;
}

std::vector<Parameter*> Module::SharedParameters() const {
  std::vector<Parameter*> all = shared_;
  for (const NamedChild& child : children_) {
    for (Parameter* p : child.module->SharedParameters()) all.push_back(p);
  }
  return all;
}

std::vector<Parameter*> Module::Buffers() const {
  std::vector<Parameter*> all;
  for (const auto& b : buffers_) all.push_back(b.get());
  for (const NamedChild& child : children_) {
    for (Parameter* b : child.module->Buffers()) all.push_back(b);
  }
  return all;
}

int64_t Module::ParameterCount() const {
  int64_t count = 0;
  for (const Parameter* p : Parameters()) count += p->numel();
  return count;
}

void Module::Finalize(std::string_view prefix) {
  TWOFOLD_CHECK(!finalized_, Join(prefix, kind()) + " already has its names");
  finalized_ = true;
  path_ = prefix;
  for (const auto& p : parameters_) p->set_name(Join(prefix, p->name()));
  for (const auto& b : buffers_) b->set_name(Join(prefix, b->name()));
  for (const NamedChild& child : children_) child.module->Finalize(Join(prefix, child.name));
}

void Module::WrapChild(size_t i, absl::FunctionRef<std::unique_ptr<Module>(std::unique_ptr<Module>)> wrap) {
  TWOFOLD_CHECK_LT(i, children_.size());
  TWOFOLD_CHECK(finalized_, "Finalize must be called before a module is wrapped");
  const std::string path = children_[i].module->path();
  owned_[i] = wrap(std::move(owned_[i]));
  owned_[i]->path_ = path;
  owned_[i]->finalized_ = true;
  children_[i].module = owned_[i].get();
}

Parameter* Module::AddParameter(std::string name, Shape shape, DType dtype, Init init, Role role) {
  parameters_.push_back(std::make_unique<Parameter>(std::move(name), std::move(shape), dtype, init, role));
  return parameters_.back().get();
}

Parameter* Module::AddBuffer(std::string name, Shape shape, DType dtype, Init init) {
  buffers_.push_back(std::make_unique<Parameter>(std::move(name), std::move(shape), dtype, init));
  return buffers_.back().get();
}

}  // namespace twofold::nn
