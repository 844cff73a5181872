//! Distinct names of kernels: many are one template with different arguments, which shortening folds.

use crate::name;
use rprof_profile::device::{Devices, Kernel};

/// Fewest characters of the template's own name.
const LEAST_BASE: usize = 6;

/// The name of `kernel` in at most `width` characters. If others would have the same, the template's name and the argument that differs from
/// most of them: `…elementwise_kernel<CUDAFunctorOnSelf_add>`.
pub fn label(devices: &Devices, kernel: &Kernel, width: usize) -> String {
    let plain = name::shorten(&kernel.name, width);
    let is_same = |other: &&Kernel| other.symbol != kernel.symbol && name::shorten(&other.name, width) == plain;
    let same: Vec<&Kernel> = devices.kernels.iter().filter(is_same).collect();
    if same.is_empty() || plain == kernel.name {
        return plain;
    }
    let own = arguments(&kernel.name);
    let others: Vec<Vec<&str>> = same.iter().map(|other| arguments(&other.name)).collect();
    let differing = |i: &usize| others.iter().filter(|other| other.get(*i) != own.get(*i)).count();
    // The first of those that differ from most.
    match (0..own.len()).rev().max_by_key(differing).filter(|i| differing(i) > 0) {
        Some(i) => fitted(component(kernel.name.split('<').next().unwrap_or("")), component(&bare(own[i])), width),
        None => plain,
    }
}

/// The arguments of the first template in `name`.
fn arguments(name: &str) -> Vec<&str> {
    let Some(open) = name.find('<') else { return Vec::new() };
    let (mut depth, mut start, mut found) = (0, open + 1, Vec::new());
    for (at, c) in name.char_indices().skip_while(|(at, _)| *at < open) {
        match c {
            '<' | '(' | '{' | '[' => depth += 1,
            '>' | ')' | '}' | ']' => depth -= 1,
            ',' if depth == 1 => {
                found.push(name[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
        if depth == 0 {
            found.push(name[start..at].trim());
            break;
        }
    }
    found
}

/// `text` up to its own arguments, without namespaces that have no name.
fn bare(text: &str) -> String {
    let text = text.replace("(anonymous namespace)::", "");
    let end = text.char_indices().find(|(at, c)| *at > 0 && matches!(c, '<' | '(')).map_or(text.len(), |(at, _)| at);
    text[..end].trim_end_matches("::").to_owned()
}

/// The last component of a path: `at::native::f` → `f`.
fn component(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path).rsplit(' ').next().unwrap_or(path)
}

fn fitted(base: &str, argument: &str, width: usize) -> String {
    let tail = |text: &str, most: usize| {
        let n = text.chars().count();
        if n <= most {
            text.to_owned()
        } else {
            format!("…{}", text.chars().skip(n + 1 - most.max(1)).collect::<String>())
        }
    };
    let argument = tail(argument, width.saturating_sub(LEAST_BASE + 2).max(1));
    let base = tail(base, width.saturating_sub(argument.chars().count() + 2).max(LEAST_BASE));
    name::printable(&format!("{base}<{argument}>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernels(names: &[&str]) -> Devices {
        let kernel = |name: &&str| Kernel { name: (*name).into(), symbol: (*name).into(), ..Kernel::default() };
        Devices { kernels: names.iter().map(kernel).collect(), ..Devices::default() }
    }

    #[test]
    fn kernels_of_one_template_are_told_apart_by_the_argument_that_differs() {
        let template = "void at::native::vectorized_elementwise_kernel";
        let add =
            format!("{template}<4, at::native::CUDAFunctorOnSelf_add<float>, std::array<char*, 2ul> >(int, float)");
        let fill = format!("{template}<4, at::native::FillFunctor<long>, std::array<char*, 1ul> >(int, long)");
        let wide = format!("{template}<8, at::native::MulFunctor<float>, std::array<char*, 2ul> >(int, float)");
        let devices = kernels(&[&add, &fill, "triad", &wide]);
        let label = |i: usize, width| super::label(&devices, &devices.kernels[i], width);
        assert!(
            label(0, 40).starts_with('…') && label(0, 40).ends_with("wise_kernel<CUDAFunctorOnSelf_add>"),
            "{}",
            label(0, 40)
        );
        assert_eq!(label(1, 42), "vectorized_elementwise_kernel<FillFunctor>");
        assert_eq!(label(2, 40), "triad");
        assert_eq!(
            component(&bare("at::native::(anonymous namespace)::launch_clamp(at::Tensor&)::{lambda()#1}")),
            "launch_clamp"
        );
        for width in 12..80 {
            assert!(label(0, width).chars().count() <= width.max(LEAST_BASE + 3), "{}", label(0, width));
        }
    }

    #[test]
    fn odd_names_are_no_trouble() {
        for names in [["a<", "a<("], ["<>", "<<>"], ["f<a,b>", "f<a,c>"], ["x", "x"], ["日本<語>(…)", "日本<文>(…)"]]
        {
            let devices = kernels(&names);
            for width in 1..20 {
                label(&devices, &devices.kernels[0], width);
            }
        }
    }
}
