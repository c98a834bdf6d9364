//! The flags of the options that the driver declares.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint};
use trainc_driver::config::Config;
use trainc_driver::options::{OPTIONS, OptionInfo, Said};
use trainc_driver::trained::FINE_TUNING;

const CONFIG: &str = "config";
const FINE_TUNE: &str = "fine-tune";

/// What every command that compiles takes. Flags win over the configuration file.
#[derive(Debug, Default)]
pub(crate) struct ConfigArguments {
    pub(crate) file: Option<PathBuf>,
    fine_tune: bool,
    said: Said,
}

impl ConfigArguments {
    /// Whether the model's weights decide the algorithm, as nothing else does.
    pub(crate) fn model_decides(&self) -> bool {
        !self.has("algorithm") && self.file.is_none() && !self.fine_tune
    }

    /// Whether the flags name an algorithm, a target, or a file that may.
    pub(crate) fn says_how(&self) -> bool {
        self.has("algorithm") || self.has("target") || self.file.is_some()
    }

    /// Whether there is any flag.
    pub(crate) fn says_anything(&self) -> bool {
        self.file.is_some() || self.fine_tune || !self.said.names().is_empty()
    }

    /// Whether there is a flag of that option.
    pub(crate) fn has(&self, option: &str) -> bool {
        self.said.names().contains(option)
    }

    /// The configuration: the defaults, under the file's, under these flags.
    pub(crate) fn config(&self, defaults: Config) -> anyhow::Result<Config> {
        let config = match &self.file {
            Some(path) => Config::read(path)?,
            None => defaults,
        };
        let mut config = self.said.over(config);
        if self.fine_tune {
            config.algorithm = FINE_TUNING.to_string();
        }
        Ok(config)
    }
}

/// The options of a command.
fn options(command: &str) -> impl Iterator<Item = &'static OptionInfo> {
    OPTIONS.iter().filter(move |o| o.commands.is_empty() || o.commands.contains(&command))
}

/// The flags of an option: one with a value, or one that turns it on and one that turns it off.
fn flags(option: &'static OptionInfo) -> Vec<Arg> {
    let defaults = Config::default();
    let Some(value) = defaults.value(option.name) else { return Vec::new() };
    let mut flag = Arg::new(option.name).long(option.flag()).help(option.help());
    if let Some(letter) = option.short {
        flag = flag.short(letter);
    }
    if value.is_switch() {
        let no = Arg::new(option.off)
            .long(option.off)
            .help(format!("Not --{}", option.flag()))
            .action(ArgAction::SetTrue)
            .conflicts_with(option.name);
        return vec![flag.action(ArgAction::SetTrue), no];
    }
    let action = if value.is_list() { ArgAction::Append } else { ArgAction::Set };
    let flag = flag.value_name(option.value).action(action).value_hint(match option.value {
        file if file.contains("FILE") => ValueHint::FilePath,
        "DATA" => ValueHint::AnyPath,
        _ => ValueHint::Other,
    });
    let checked = move |text: OsString| Said::default().read(option, &text).map(|()| text);
    let words = value.choices().iter().map(|(word, help)| PossibleValue::new(*word).help(*help));
    let words: Vec<PossibleValue> = words.collect();
    vec![match words.is_empty() {
        true => flag.value_parser(OsStringValueParser::new().try_map(checked)),
        false => flag.value_parser(PossibleValuesParser::new(words).map(OsString::from)),
    }]
}

impl Args for ConfigArguments {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new(CONFIG)
            .long(CONFIG)
            .help("Read defaults from a configuration file (the keys are the options' names)")
            .value_name("FILE")
            .value_hint(ValueHint::FilePath)
            .value_parser(clap::value_parser!(PathBuf));
        let fine_tune = Arg::new(FINE_TUNE)
            .long(FINE_TUNE)
            .help(format!(
                "Fine-tune the model's weights, whatever they look like: --algorithm {FINE_TUNING}"
            ))
            .action(ArgAction::SetTrue)
            .conflicts_with("algorithm");
        let flags: Vec<Arg> = options(command.get_name()).flat_map(flags).collect();
        command
            .args([file, fine_tune])
            .args(flags)
            .mut_arg("calibrate", |calibrate| calibrate.requires("precision"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        ConfigArguments::augment_args(command)
    }
}

impl FromArgMatches for ConfigArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut arguments = ConfigArguments::default();
        arguments.update_from_arg_matches(matches)?;
        Ok(arguments)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.file = matches.get_one::<PathBuf>(CONFIG).cloned();
        self.fine_tune = matches.get_flag(FINE_TUNE);
        for option in OPTIONS {
            let flag = |id: &str| matches!(matches.try_get_one::<bool>(id), Ok(Some(true)));
            let switched = [(option.name, "true"), (option.off, "false")];
            let words = switched.into_iter().filter(|(id, _)| flag(id));
            let values = matches.try_get_many::<OsString>(option.name).ok().flatten();
            let values = values.into_iter().flatten().map(OsString::as_os_str);
            for text in words.map(|(_, word)| OsStr::new(word)).chain(values) {
                let fail = |e| clap::Error::raw(clap::error::ErrorKind::ValueValidation, e);
                self.said.read(option, text).map_err(fail)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// Commands that an option names have it.
    #[test]
    fn options_are_where_they_say() {
        let all = crate::arguments::Arguments::command();
        for option in OPTIONS {
            for name in option.commands {
                let command = all.find_subcommand(name).expect(name);
                let flags: Vec<&str> =
                    command.get_arguments().filter_map(clap::Arg::get_long).collect();
                let own = [option.name, option.off];
                assert!(own.iter().any(|flag| flags.contains(flag)), "{name}: {}", option.name);
            }
        }
    }

    /// Every option is a flag of some command, and every flag sets its option.
    #[test]
    fn every_option_has_a_flag() {
        for option in OPTIONS {
            let command = option.commands.first().copied().unwrap_or("run");
            let words = match option.name {
                "calibrate" => vec!["--precision=p.toml".to_string(), "--calibrate=x".to_string()],
                "dimensions" => vec!["--dimension=n=3".to_string()],
                "exact" | "shuffle" => vec![format!("--no-{}", option.name)],
                "augment" => vec!["--augment=flip".to_string()],
                "strict" => vec!["--strict".to_string()],
                "opt" => vec!["--opt=off".to_string()],
                "batch-norm" => vec!["--batch-norm=frozen".to_string()],
                "init" => vec!["--init=random".to_string()],
                "loss" => vec!["--loss=mse".to_string()],
                "normalization" => vec!["--normalization=none".to_string()],
                "schedule" => vec!["--schedule=0:3".to_string()],
                "label-smoothing" => vec!["--label-smoothing=0.5".to_string()],
                "scheduled" => vec!["--scheduled=momentum=0.9".to_string()],
                "output-loss" => vec!["--output-loss=y=mse".to_string()],
                name => vec![format!("--{name}=7")],
            };
            let flags = ConfigArguments::augment_args(Command::new(command));
            let line = std::iter::once(command.to_string()).chain(words);
            let matches = flags.try_get_matches_from(line).expect(option.name);
            let arguments = ConfigArguments::from_arg_matches(&matches).expect(option.name);
            assert!(arguments.has(option.name), "{}", option.name);
            let found = arguments.config(Config::default()).expect(option.name);
            let words = |config: &Config| config.value(option.name).and_then(|v| v.words());
            assert_ne!(words(&found), words(&Config::default()), "{}", option.name);
        }
    }
}
