//! Functions that an installed mpi.h declares and that have a twin named PMPI_*: what the counter wraps. Reads the
//! preprocessed text alone; must not know any function by name.

use std::collections::BTreeMap;

/// One function, as far as a wrapper has to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Without `MPI_`.
    pub name: String,
    /// Type of what it returns.
    pub returns: String,
    /// Declarations of its parameters, named `a0`, `a1` and so on.
    pub parameters: Vec<String>,
}

/// Words that belong to a type and are never the name of a parameter.
const TYPE_WORDS: &[&str] = &[
    "char", "const", "double", "float", "int", "long", "restrict", "short", "signed", "struct", "unsigned",
    "void", "volatile",
];

/// All functions `MPI_*` of the text whose twin is declared as well, by name. Functions with a variable list of
/// parameters are left out, as a wrapper can't hand that on.
pub fn functions(text: &str) -> Vec<Function> {
    let text = without_attributes(text);
    let mut declared = BTreeMap::new();
    for statement in text.split([';', '{', '}']) {
        if let Some(function) = declaration(statement) {
            declared.insert(function.name.clone(), function);
        }
    }
    let has_twin = |name: &str| declared.contains_key(&format!("P{name}"));
    let mut found = Vec::new();
    for (name, function) in &declared {
        if let Some(short) = name.strip_prefix("MPI_").filter(|_| has_twin(name)) {
            found.push(Function { name: short.to_owned(), ..function.clone() });
        }
    }
    found
}

/// A declaration with the whole name of its function.
fn declaration(statement: &str) -> Option<Function> {
    let (head, rest) = statement.split_once('(')?;
    let list = rest.trim_end().strip_suffix(')')?;
    let head = head.trim();
    let start = head.rfind(|c: char| !is_word(c)).map_or(0, |at| at + 1);
    let name = &head[start..];
    let returns = head[..start].trim().trim_start_matches("extern ").trim();
    if !(name.starts_with("MPI_") || name.starts_with("PMPI_"))
        || returns.is_empty()
        || returns.contains("typedef")
    {
        return None;
    }
    let parts = split(list)?;
    let parameters = parts.iter().enumerate().map(|(at, part)| renamed(part, at)).collect::<Option<_>>()?;
    Some(Function { name: name.to_owned(), returns: returns.to_owned(), parameters })
}

/// The parameters of a list; `None` where it is variable.
fn split(list: &str) -> Option<Vec<&str>> {
    let parts: Vec<_> = list.split(',').map(str::trim).collect();
    if parts == ["void"] || parts == [""] {
        return Some(Vec::new());
    }
    if parts.contains(&"...") { None } else { Some(parts) }
}

/// A parameter under a name of ours; `None` for what is not a plain declaration.
fn renamed(parameter: &str, at: usize) -> Option<String> {
    if parameter.contains(['(', ')']) {
        return None;
    }
    let (plain, arrays) = match parameter.find('[') {
        Some(index) => parameter.split_at(index),
        None => (parameter, ""),
    };
    let words: Vec<&str> = plain.split(|c| !is_word(c)).filter(|word| !word.is_empty()).collect();
    let last = *words.last()?;
    let types =
        words.iter().filter(|word| !["const", "restrict", "struct", "volatile"].contains(word)).count();
    let is_named = types > 1 && !TYPE_WORDS.contains(&last) && plain.ends_with(last);
    let kind = if is_named { plain[..plain.len() - last.len()].trim_end() } else { plain.trim_end() };
    Some(format!("{} a{at}{arrays}", kind.trim_end_matches("restrict")))
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The text without `__attribute__((...))` and its like, on one line.
fn without_attributes(text: &str) -> String {
    let text = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join(" ");
    let mut left = text.as_str();
    let mut kept = String::new();
    while let Some(at) = left.find("__attribute__") {
        kept.push_str(&left[..at]);
        let mut depth = 0_usize;
        let end = left[at..].char_indices().find_map(|(index, c)| {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            (c == ')' && depth == 0).then_some(at + index + 1)
        });
        left = &left[end.unwrap_or(left.len())..];
    }
    kept + left
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
typedef int MPI_Comm; typedef int (MPI_Copy_function)(MPI_Comm, int, void *);
__attribute__((visibility(\"default\"))) int MPI_Send(const void *buf, int count,
    MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) __attribute__((pointer_with_type_tag(MPI,1,3)));
int PMPI_Send(const void *, int, MPI_Datatype, int, int, MPI_Comm);
extern double MPI_Wtime(void); double PMPI_Wtime(void);
int MPI_Pcontrol(const int level, ...); int PMPI_Pcontrol(const int level, ...);
int MPI_Alone(int a);
int MPI_Group_range_incl(MPI_Group group, int n, int ranges[][3], MPI_Group *newgroup);
int PMPI_Group_range_incl(MPI_Group group, int n, int ranges[][3], MPI_Group *newgroup);
";

    #[test]
    fn functions_with_a_twin_are_found_with_their_types() {
        let found = functions(TEXT);
        let names: Vec<_> = found.iter().map(|function| function.name.as_str()).collect();
        assert_eq!(names, ["Group_range_incl", "Send", "Wtime"]);
        assert_eq!(found[0].parameters, ["MPI_Group a0", "int a1", "int a2[][3]", "MPI_Group * a3"]);
        let send = ["const void * a0", "int a1", "MPI_Datatype a2", "int a3", "int a4", "MPI_Comm a5"];
        assert_eq!(found[1].parameters, send);
        assert_eq!((found[2].returns.as_str(), found[2].parameters.len()), ("double", 0));
        let unnamed =
            declaration("int PMPI_Send(const void *, int, MPI_Datatype, int, int, MPI_Comm)").unwrap();
        assert_eq!(unnamed.parameters, send);
    }
}
