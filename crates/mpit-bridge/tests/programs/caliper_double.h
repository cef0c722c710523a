// The part of Caliper's classes that programs annotate with: what their mangled names and sizes come from.
#pragma once
#include <map>

extern "C" {
void cali_begin_region(const char *);
void cali_end_region(const char *);
void cali_begin_comm_region(const char *);
void cali_end_comm_region(const char *);
void caliper_print();
}

namespace cali {
class Variant;

class Function {
public:
    explicit Function(const char *name);
    ~Function();
};
class ScopeAnnotation {
public:
    explicit ScopeAnnotation(const char *name);
    ~ScopeAnnotation();
};
class Loop {
    struct Impl;
    Impl *pI;

public:
    explicit Loop(const char *name);
    ~Loop();
    void end();
};
class Annotation {
    struct Impl;
    Impl *pI;

public:
    typedef std::map<const char *, Variant> MetadataListType;
    explicit Annotation(const char *name, int options = 0);
    Annotation(const char *name, const MetadataListType &metadata, int options = 0);
    ~Annotation();
    Annotation &begin(int value);
    Annotation &begin(const char *value);
    void end();
    class Guard {
        Impl *pI;

    public:
        explicit Guard(Annotation &of);
        ~Guard();
    };
};
class Variant {
    double value[2];
};
} // namespace cali
