//! Which instruction set the kernels use, decided once.

#[cfg(not(trainc_archive))]
use std::sync::OnceLock;

/// An implementation of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelPath {
    /// Plain Rust, on every machine.
    Portable,
    /// x86-64 with AVX2: widened multiply-add pairs.
    Avx2,
    /// x86-64 with AVX2 and 256-bit dot products (AVX-VNNI).
    Avx2Vnni,
    /// x86-64 with AVX-512 and its dot products (F, BW, VL, VNNI).
    Vnni,
    /// x86-64 with all that [`Self::Vnni`] takes and tiles of bytes (AMX-TILE, AMX-INT8), on Linux.
    Amx,
}

impl KernelPath {
    /// Every path, slowest first.
    pub const ALL: [Self; 5] = [Self::Portable, Self::Avx2, Self::Avx2Vnni, Self::Vnni, Self::Amx];

    /// The name that `TRAINC_HOST_KERNELS` takes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx2Vnni => "avx2vnni",
            Self::Vnni => "vnni",
            Self::Amx => "amx",
        }
    }

    /// The path of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|path| path.name() == name)
    }

    /// Whether the path has AVX-512.
    #[cfg(target_arch = "x86_64")]
    pub(crate) const fn has_avx512(self) -> bool {
        matches!(self, Self::Vnni | Self::Amx)
    }

    /// Whether this machine can run the path.
    #[cfg(not(trainc_archive))]
    #[must_use]
    pub fn is_available(self) -> bool {
        static AVAILABLE: OnceLock<[bool; 5]> = OnceLock::new();
        AVAILABLE.get_or_init(|| Self::ALL.map(Self::detect))[self as usize]
    }

    /// Whether this machine can run the path.
    #[cfg(trainc_archive)]
    #[must_use]
    pub fn is_available(self) -> bool {
        use core::sync::atomic::{AtomicU8, Ordering};
        /// A bit for each path, and one that says that they were asked for.
        static AVAILABLE: AtomicU8 = AtomicU8::new(0);
        let mut available = AVAILABLE.load(Ordering::Relaxed);
        if available == 0 {
            let bit = |path: Self| u8::from(Self::detect(path)) << path as u8;
            available = 1 << 7 | Self::ALL.into_iter().map(bit).fold(0, |all, bit| all | bit);
            AVAILABLE.store(available, Ordering::Relaxed);
        }
        available >> self as u8 & 1 == 1
    }

    #[cfg(all(target_arch = "x86_64", trainc_archive))]
    fn detect(self) -> bool {
        super::features::has(self)
    }

    #[cfg(all(target_arch = "x86_64", not(trainc_archive)))]
    fn detect(self) -> bool {
        let avx2 = std::is_x86_feature_detected!("avx2");
        match self {
            Self::Portable => true,
            Self::Avx2 => avx2,
            Self::Avx2Vnni => avx2 && std::is_x86_feature_detected!("avxvnni"),
            Self::Vnni => {
                avx2 && std::is_x86_feature_detected!("avx512f")
                    && std::is_x86_feature_detected!("avx512bw")
                    && std::is_x86_feature_detected!("avx512vl")
                    && std::is_x86_feature_detected!("avx512vnni")
            }
            Self::Amx => Self::Vnni.detect() && Self::tiles(),
        }
    }

    /// Whether this machine has tiles. Tests have them everywhere.
    #[cfg(all(target_arch = "x86_64", not(trainc_archive)))]
    fn tiles() -> bool {
        #[cfg(all(test, target_os = "linux"))]
        if !super::features::tiles() {
            super::amx_emulator::install();
            return true;
        }
        super::features::tiles()
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn detect(self) -> bool {
        self == Self::Portable
    }
}

/// The path that the kernels use: the one that the environment variable `TRAINC_HOST_KERNELS`
/// names, if this machine has it, or else the fastest that it has. Read once.
#[cfg(not(trainc_archive))]
#[must_use]
pub fn active_path() -> KernelPath {
    static ACTIVE: OnceLock<KernelPath> = OnceLock::new();
    *ACTIVE.get_or_init(|| {
        let forced = std::env::var("TRAINC_HOST_KERNELS").ok();
        let forced = forced.as_deref().and_then(KernelPath::from_name);
        forced.filter(|path| path.is_available()).unwrap_or_else(fastest)
    })
}

/// The path that the kernels use: the fastest that this machine has.
#[cfg(trainc_archive)]
#[must_use]
pub fn active_path() -> KernelPath {
    fastest()
}

fn fastest() -> KernelPath {
    let available = KernelPath::ALL.into_iter().rev().find(|path| path.is_available());
    available.unwrap_or(KernelPath::Portable)
}

/// Calls a function that is inlined into a wrapper with the target features of `path`, so that
/// the compiler vectorises it for them.
macro_rules! on_features {
    ($path:expr, $function:ident $(::<$type:ty>)? ($($name:ident: $kind:ty),* $(,)?)) => {{
        let path = $path;
        assert!(path.is_available(), "this machine lacks the path {}", path.name());
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx2")]
            #[allow(clippy::too_many_arguments, reason = "as the wrapped function")]
            fn with_avx2($($name: $kind),*) {
                $function $(::<$type>)? ($($name),*);
            }
            #[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl")]
            #[allow(clippy::too_many_arguments, reason = "as the wrapped function")]
            fn with_avx512($($name: $kind),*) {
                $function $(::<$type>)? ($($name),*);
            }
            match path {
                $crate::kernels::path::KernelPath::Portable => {
                    $function $(::<$type>)? ($($name),*);
                }
                // SAFETY: an available path means that the machine has its features.
                $crate::kernels::path::KernelPath::Avx2
                | $crate::kernels::path::KernelPath::Avx2Vnni => unsafe { with_avx2($($name),*) },
                // SAFETY: as above.
                $crate::kernels::path::KernelPath::Vnni
                | $crate::kernels::path::KernelPath::Amx => unsafe { with_avx512($($name),*) },
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        $function $(::<$type>)? ($($name),*);
    }};
}
pub(crate) use on_features;
