//! The fenced blocks of a page, and how each is handled.

/// Word after a block's language: shown, and not run.
const EXCERPT: &str = "excerpt";
/// Word after a program's language: a test may omit this block, and use the definitions of the others.
const USE: &str = "use";

/// Language of a block, if it can be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// A shell that finds `turno`.
    Shell,
    /// PostgreSQL, with Turno's schema.
    Sql,
    /// `turno.toml`, or a routes file of the gate.
    Toml,
    /// All blocks of a page together are one program.
    Program(Program),
}

/// A language in which the blocks of a page make one program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    Python,
    TypeScript,
    Java,
}

/// How a block is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    Run(Language),
    /// Expected output of the previous block.
    Output,
    Excerpt,
}

#[derive(Debug)]
pub struct Block {
    /// Line of its opening fence, starting at 1.
    pub line: usize,
    pub kind: BlockKind,
    /// Part of the page's program that uses what the other parts define.
    pub is_use: bool,
    pub text: String,
}

/// Returns the blocks of a page, or what is wrong with one.
pub fn blocks(page: &str) -> Result<Vec<Block>, String> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(info) = line.trim_start().strip_prefix("```") else {
            continue;
        };
        let line = number + 1;
        let mut text = String::new();
        loop {
            match lines.next() {
                None => return Err(format!("line {line}: the block does not end")),
                Some((_, end)) if end.trim() == "```" => break,
                Some((_, inside)) => {
                    text.push_str(inside);
                    text.push('\n');
                }
            }
        }
        let before = blocks.last().map(|block| block.kind);
        let kind = block_kind(info, before).map_err(|wrong| format!("line {line}: {wrong}"))?;
        let is_use = info.split_whitespace().nth(1) == Some(USE);
        blocks.push(Block {
            line,
            kind,
            is_use,
            text,
        });
    }
    Ok(blocks)
}

/// Parses the words after the fence; `before` is how the previous block is handled.
fn block_kind(info: &str, before: Option<BlockKind>) -> Result<BlockKind, String> {
    let words: Vec<&str> = info.split_whitespace().collect();
    let language = match words[..] {
        [language, EXCERPT] if language.chars().all(char::is_alphanumeric) => {
            return Ok(BlockKind::Excerpt);
        }
        [language] => language,
        [language @ ("python" | "ts" | "java"), USE] => language,
        [] => return Err("a block without a language: ```text excerpt, perhaps".to_owned()),
        _ => return Err(format!("what is {info:?}?")),
    };
    let run = match language {
        "sh" => Language::Shell,
        "sql" => Language::Sql,
        "toml" => Language::Toml,
        "python" => Language::Program(Program::Python),
        "ts" => Language::Program(Program::TypeScript),
        "java" => Language::Program(Program::Java),
        "text" if matches!(before, Some(BlockKind::Run(_))) => return Ok(BlockKind::Output),
        "text" => {
            return Err("what prints this? Say ```text excerpt if nothing does".to_owned());
        }
        other => return Err(format!("nothing runs this: say ```{other} {EXCERPT}")),
    };
    Ok(BlockKind::Run(run))
}

#[test]
fn a_block_is_run_or_printed_or_marked() {
    let page = "```sh\nturno serve\n```\n```text\nlistening\n```\n\
                ```rust excerpt\nlet a;\n```\n- a list\n  ```text excerpt\n  a → b\n  ```\n";
    let kinds: Vec<BlockKind> = blocks(page).unwrap().iter().map(|b| b.kind).collect();
    let shell = BlockKind::Run(Language::Shell);
    assert_eq!(
        kinds,
        [
            shell,
            BlockKind::Output,
            BlockKind::Excerpt,
            BlockKind::Excerpt
        ]
    );
    let parts = blocks("```ts\nfunction f() {}\n```\n```ts use\nf();\n```\n").unwrap();
    let parts: Vec<_> = parts.iter().map(|b| (b.kind, b.is_use)).collect();
    let program = BlockKind::Run(Language::Program(Program::TypeScript));
    assert_eq!(parts, [(program, false), (program, true)]);
}

/// The control: a block that is not run is found, and so is an output without a block that prints it.
#[test]
fn a_block_that_is_neither_is_found() {
    for (page, says) in [
        ("```\na → b\n```", "line 1: a block without a language"),
        (
            "\n```rust\nlet a;\n```",
            "line 2: nothing runs this: say ```rust excerpt",
        ),
        ("```text\nlistening\n```", "line 1: what prints this?"),
        (
            "```rust excerpt\n```\n```text\nlistening\n```",
            "line 3: what prints this?",
        ),
        ("```sh, excerpt\n```", "what is \"sh, excerpt\"?"),
        ("```sh use\n```", "what is \"sh use\"?"),
        ("```sh\nturno serve\n", "line 1: the block does not end"),
    ] {
        let wrong = blocks(page).map(|_| ()).unwrap_err();
        assert!(wrong.contains(says), "{wrong:?} and not {says:?}");
    }
}
