//! The folder that the server was given, and paths in it.

use std::path::{Component, Path, PathBuf};

use super::error::{Refusal, ServeError};

/// The folder that the client works in.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The folder `path`.
    ///
    /// # Errors
    /// It does not exist, or is no folder.
    pub fn new(path: &Path) -> Result<Folder, ServeError> {
        let failed = |source| ServeError::Folder { path: path.to_owned(), source };
        let whole = path.canonicalize().map_err(failed)?;
        if whole.is_dir() { Ok(Folder { path: whole }) } else { Err(failed(std::io::ErrorKind::NotADirectory.into())) }
    }

    /// Its path, without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What `given` names, links followed.
    ///
    /// # Errors
    /// It does not exist, or lies outside of the folder.
    pub fn existing(&self, given: &str) -> Result<PathBuf, Refusal> {
        let path = self.path.join(given);
        // A path outside is refused whether it exists or not.
        let found = path.canonicalize();
        match found {
            Ok(found) if found.starts_with(&self.path) => Ok(found),
            Err(error) if self.contains(&path) => Err(Refusal::new(format!("{given}: {error}"))),
            _ => Err(self.outside(given)),
        }
    }

    /// A place for a new folder, directly in this one.
    ///
    /// # Errors
    /// `name` is more than a name.
    pub fn new_entry(&self, name: &str) -> Result<PathBuf, Refusal> {
        let mut components = Path::new(name).components();
        match (components.next(), components.next()) {
            (Some(Component::Normal(only)), None) if !name.starts_with('-') => Ok(self.path.join(only)),
            _ => Err(Refusal::new(format!("{name}: not the name of a folder in {}", self.path.display()))),
        }
    }

    /// `path` as it is named from the folder.
    pub fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.path).unwrap_or(path).display().to_string()
    }

    /// Whether `path`, whose end does not exist, leads into the folder.
    fn contains(&self, path: &Path) -> bool {
        let goes_up = path.components().any(|part| part == Component::ParentDir);
        let there = path.ancestors().find_map(|parent| parent.canonicalize().ok());
        !goes_up && there.is_some_and(|parent| parent.starts_with(&self.path))
    }

    fn outside(&self, given: &str) -> Refusal {
        Refusal::new(format!("{given} is outside of the folder {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_is_reached() {
        let place = tempfile::tempdir().unwrap();
        let inner = place.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(inner.join("a"), "").unwrap();
        std::fs::write(place.path().join("b"), "").unwrap();
        std::os::unix::fs::symlink("../b", inner.join("link")).unwrap();
        let folder = Folder::new(&inner).unwrap();
        assert_eq!(folder.shown(&folder.existing("./a").unwrap()), "a");
        for given in ["../b", "link", "/etc/passwd", "/no/such", "../nothing", "x/../../b"] {
            let told = folder.existing(given).unwrap_err().0;
            assert!(told.contains("is outside of the folder"), "{given}: {told}");
        }
        assert!(folder.existing("nothing").unwrap_err().0.starts_with("nothing: No such file"));
        assert!(folder.new_entry("out").is_ok());
        for given in ["", ".", "..", "a/b", "/a", "-o"] {
            assert!(folder.new_entry(given).is_err(), "{given}");
        }
        assert!(Folder::new(&inner.join("a")).is_err() && Folder::new(&inner.join("c")).is_err());
    }
}
