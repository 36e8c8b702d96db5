//! `config`, `completions` and `man`.

use crate::support::{MAINSTAY, Ran};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};
use tempfile::TempDir;

/// Runs the command in `folder` with these variables and no other setting in the environment.
fn mainstay(folder: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Ran {
    run(MAINSTAY.as_ref(), folder, variables, arguments)
}

fn run(program: &Path, folder: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Ran {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("MAINSTAY_")) {
        command.env_remove(name);
    }
    command.current_dir(folder).args(arguments).envs(variables.iter().copied()).output().map(Ran::of).unwrap()
}

#[test]
fn config_says_what_is_in_force_and_where_it_comes_from() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let bare = mainstay(&path, &[], &["config"]);
    assert_eq!((bare.code, bare.err.as_str()), (0, ""));
    assert!(
        bare.out.starts_with(&format!("file  none: there is no {}/mainstay.toml\n", path.display())),
        "{}",
        bare.out
    );

    // The pool sizes itself: the output gives its upper bound.
    let told = "pool_bytes = auto: the data of a node's ranks; here and now at most ";
    assert!(bare.out.lines().last().unwrap().starts_with(told), "{}", bare.out);
    let pool = |variables: &[_]| mainstay(&path, variables, &["config", "--json"]).json()["pool"].clone();
    assert!(pool(&[])["bytes_max"].as_u64().unwrap() > 0 && pool(&[])["bound"].is_string());
    for none in [("MAINSTAY_POOL_BYTES", "1 GiB"), ("MAINSTAY_STAGE", "direct")] {
        assert!(pool(&[none]).is_null(), "{none:?}");
        assert!(!mainstay(&path, &[none], &["config"]).out.contains(told), "{none:?}");
    }

    fs::write(path.join("mainstay.toml"), "keep = 3\nevery_seconds = '10 min'\n").unwrap();
    let variables = [("MAINSTAY_POOL_BYTES", "1 GiB"), ("MAINSTAY_KEEP", "")];
    let table = mainstay(&path, &variables, &["config"]);
    assert_eq!((table.code, table.err.as_str()), (0, ""));
    let file = path.join("mainstay.toml").display().to_string();
    assert!(table.out.starts_with(&format!("file  {file}\n")), "{}", table.out);
    let row = |key: &str| {
        let line = table.out.lines().find(|line| line.split_whitespace().next() == Some(key));
        line.unwrap_or_else(|| panic!("no {key} in {}", table.out)).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("keep"), format!("keep 3 {file}, line 1"));
    assert_eq!(row("every_seconds"), format!("every_seconds 600 {file}, line 2"));
    assert_eq!(row("pool_bytes"), "pool_bytes 1 GiB MAINSTAY_POOL_BYTES");
    assert_eq!(row("checkpoint_signal"), "checkpoint_signal \"\" default");

    let document = mainstay(&path, &variables, &["config", "--json"]).json();
    assert_eq!(document["file"], file);
    let settings = document["settings"].as_array().unwrap();
    let setting = |key: &str| settings.iter().find(|setting| setting["key"] == key).unwrap();
    assert_eq!((&setting("keep")["value"], &setting("keep")["default"]), (&3.into(), &1.into()));
    assert_eq!((&setting("keep")["source"], &setting("keep")["line"]), (&"file".into(), &1.into()));
    assert_eq!((&setting("every_seconds")["value"], &setting("stage")["value"]), (&600.0.into(), &"pool".into()));
    assert_eq!(setting("pool_bytes")["value"], 1 << 30);
    assert_eq!(setting("pool_bytes")["source"], "environment");
    assert_eq!(setting("pool_bytes")["variable"], "MAINSTAY_POOL_BYTES");
    assert_eq!((&setting("stage")["source"], &setting("stage")["line"]), (&"default".into(), &serde_json::Value::Null));
}

#[test]
fn config_refuses_what_a_session_refuses() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("mainstay.toml"), "keep = 3\nkep = 3\n").unwrap();
    let ran = mainstay(folder.path(), &[], &["config"]);
    ran.refused(2, &["kep in ", "mainstay.toml, line 2", "did you mean keep?"]);
    let elsewhere = [("MAINSTAY_CONFIG", "/dev/null"), ("MAINSTAY_KEEP", "x")];
    mainstay(folder.path(), &elsewhere[..1], &["config"]).refused(2, &["/dev/null", "not a regular file"]);
    let empty = TempDir::new().unwrap();
    mainstay(empty.path(), &elsewhere[1..], &["config"]).refused(2, &["MAINSTAY_KEEP", "no whole number"]);
}

#[test]
fn config_names_variables_that_are_no_settings() {
    let folder = TempDir::new().unwrap();
    let ran = mainstay(folder.path(), &[("MAINSTAY_PORT", "3"), ("MAINSTAY_MY_OWN", "x")], &["config"]);
    assert_eq!(ran.code, 0);
    let expected = "mainstay: MAINSTAY_MY_OWN is no setting and is ignored\n\
                    mainstay: MAINSTAY_PORT is no setting and is ignored; did you mean MAINSTAY_PORTION_BYTES?\n";
    assert_eq!(ran.err, expected);
}

#[test]
fn a_misspelt_variable_is_refused_by_config_and_before_a_job_is_run() {
    let folder = TempDir::new().unwrap();
    // A short setting that stands for several.
    let short = [("MAINSTAY_EVERY", "10")];
    let all = ["did you mean MAINSTAY_EVERY_STEPS, MAINSTAY_EVERY_SECONDS, MAINSTAY_DISK_EVERY or MAINSTAY_PFS_EVERY?"];
    mainstay(folder.path(), &short, &["config"]).refused(2, &all);
    let misspelt = [("MAINSTAY_EVERY_SECOND", "10")];
    let words = ["MAINSTAY_EVERY_SECOND: ", "did you mean MAINSTAY_EVERY_SECONDS?"];
    mainstay(folder.path(), &misspelt, &["config"]).refused(2, &words);
    let ran = mainstay(folder.path(), &misspelt, &["run", "--", "touch", "started"]);
    ran.refused(2, &words);
    assert!(!folder.path().join("started").exists());
}

/// The command as if it had been installed to `prefix`.
fn installed(prefix: &Path) -> std::path::PathBuf {
    for folder in ["bin", "include", "lib"] {
        fs::create_dir_all(prefix.join(folder)).unwrap();
    }
    for file in ["include/mainstay.h", "lib/libmainstay.so"] {
        fs::write(prefix.join(file), "").unwrap();
    }
    let command = prefix.join("bin/mainstay");
    // Another process makes the copy. If this process forked meanwhile, the child would keep the copy open, and the
    // system would refuse to run it as busy.
    assert!(Command::new("cp").arg(MAINSTAY).arg(&command).status().unwrap().success());
    command
}

#[test]
fn config_tells_how_to_compile() {
    let folder = TempDir::new().unwrap();
    let prefix = folder.path().canonicalize().unwrap().join("usr");
    let command = installed(&prefix);
    let p = prefix.display();
    let told = |options: &[&str]| {
        let ran = run(&command, folder.path(), &[], &[&["config"], options].concat());
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        ran.out
    };
    assert_eq!(told(&["--cflags"]), format!("-I{p}/include\n"));
    assert_eq!(told(&["--libs"]), format!("-L{p}/lib -lmainstay -Wl,-rpath,{p}/lib\n"));
    assert_eq!(told(&["--libs", "--cflags"]), format!("-I{p}/include -L{p}/lib -lmainstay -Wl,-rpath,{p}/lib\n"));
    assert_eq!(told(&["--prefix"]), format!("{p}\n"));
    // The command is found through a link, too, with any settings.
    let link = folder.path().join("mainstay");
    std::os::unix::fs::symlink(&command, &link).unwrap();
    let ran = run(&link, folder.path(), &[("MAINSTAY_KEEP", "x")], &["config", "--prefix"]);
    assert_eq!((ran.code, ran.out), (0, format!("{p}\n")));

    fs::remove_file(prefix.join("include/mainstay.h")).unwrap();
    run(&command, folder.path(), &[], &["config", "--cflags"]).refused(4, &["include/mainstay.h", "make install"]);
    let both = run(&command, folder.path(), &[], &["config", "--cflags", "--json"]);
    assert_eq!(both.code, 2, "{both:?}");
}

#[test]
fn flags_of_odd_folders_stay_words_for_a_shell() {
    let folder = TempDir::new().unwrap();
    let prefix = folder.path().canonicalize().unwrap().join("it's, my $HOME");
    let command = installed(&prefix);
    let script = "eval \"set -- $(\"$0\" config --cflags --libs)\"; printf '%s\\n' \"$@\"";
    let words = Command::new("sh").args(["-c", script]).arg(&command).output().map(Ran::of).unwrap();
    let p = prefix.display();
    let expected = format!("-I{p}/include\n-L{p}/lib\n-lmainstay\n-Xlinker\n-rpath\n-Xlinker\n{p}/lib\n");
    assert_eq!((words.code, words.out), (0, expected));
}

#[test]
fn completions_are_made_for_every_shell_and_load_in_bash() {
    let here = Path::new("/");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = mainstay(here, &[], &["completions", shell]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{shell}");
        assert!(ran.out.contains("verify") && ran.out.contains("config"), "{shell}: {}", ran.out);
    }
    assert_eq!(mainstay(here, &[], &["completions", "tcsh"]).code, 2);
    // The request of bash: the words so far, the word to complete, and the word before it.
    let script = "source <(\"$0\" completions bash) && complete -p mainstay &&
        COMP_WORDS=(mainstay ver) COMP_CWORD=1 && _mainstay mainstay ver mainstay; echo \"${COMPREPLY[@]}\"";
    let ran = Command::new("bash").args(["--norc", "-c", script, MAINSTAY]).output().map(Ran::of).unwrap();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert!(ran.out.contains("-F _mainstay") && ran.out.ends_with("\nverify\n"), "{}", ran.out);
}

#[test]
fn every_command_has_a_manual_page_that_renders_without_a_warning() {
    let folder = TempDir::new().unwrap();
    let pages = folder.path().join("share/man1");
    let ran = mainstay(folder.path(), &[], &["man", pages.to_str().unwrap()]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));
    let main = fs::read_to_string(pages.join("mainstay.1")).unwrap();
    assert_eq!(mainstay(folder.path(), &[], &["man"]).out, main);

    let help = mainstay(folder.path(), &[], &["--help"]).out;
    let groups = help.split("\nLook:\n").nth(1).unwrap().split("\nOptions:\n").next().unwrap();
    let commands = groups.lines().filter(|line| line.starts_with("  "));
    let names: Vec<&str> = commands.map(|line| line.split_whitespace().next().unwrap()).collect();
    assert!(names.contains(&"ls") && names.contains(&"man"), "{help}");
    // Commands of a command have pages of their own.
    let below = ["files-ls", "files-restore", "files-verify"].map(|name| pages.join(format!("mainstay-{name}.1")));
    below.iter().for_each(|page| renders(page));
    assert_eq!(fs::read_dir(&pages).unwrap().count(), names.len() + below.len() + 1);
    for name in names {
        let path = pages.join(format!("mainstay-{name}.1"));
        let page = fs::read_to_string(&path).unwrap();
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES"] {
            let without_examples = ["ls", "verify", "checkpoint", "release"].contains(&name) && section == "EXAMPLES";
            let there = page.contains(&format!(".SH {section}\n")) || page.contains(&format!(".SH \"{section}\"\n"));
            assert!(there || without_examples, "no {section} in {page}");
        }
        renders(&path);
    }
    renders(&pages.join("mainstay.1"));
    // Examples stay on lines of their own.
    let page = fs::read_to_string(pages.join("mainstay-config.1")).unwrap();
    assert!(page.contains(".SH \"EXAMPLES\"\n.nf\n\\&mainstay config\n\\&MAINSTAY_KEEP=3 mainstay config"), "{page}");

    fs::write(folder.path().join("file"), "").unwrap();
    mainstay(folder.path(), &[], &["man", "file"]).refused(4, &["writing the manual pages to file"]);
}

/// Renders the page with groff or mandoc, whichever is installed. Mandoc also warns of a missing date, which would
/// change with each build.
fn renders(page: &Path) {
    let tools: [(&str, &[&str]); 2] = [("groff", &["-man", "-Tutf8", "-ww", "-z"]), ("mandoc", &["-Tlint", "-Werror"])];
    for (tool, options) in tools {
        match Command::new(tool).args(options).arg(page).stdin(Stdio::null()).output().map(Ran::of) {
            Ok(ran) => {
                assert_eq!((ran.code, ran.out, ran.err), (0, String::new(), String::new()), "{}", page.display())
            }
            Err(_) => println!("there is no {tool} here"),
        }
    }
}
