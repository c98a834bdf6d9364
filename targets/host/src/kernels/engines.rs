//! The engine that a path has, and sizes that suit each of them.

/// Runs `$call` with `$engine` bound to the INT8 engine of a path.
macro_rules! with_i8 {
    ($path:expr, $engine:ident => $call:expr) => {{
        let path = $path;
        assert!(path.is_available(), "this machine lacks the path {}", path.name());
        match path {
            #[cfg(target_arch = "x86_64")]
            $crate::kernels::path::KernelPath::Avx2 => {
                type $engine = $crate::kernels::avx2::PairsI8;
                $call
            }
            #[cfg(target_arch = "x86_64")]
            $crate::kernels::path::KernelPath::Avx2Vnni => {
                type $engine = $crate::kernels::avx2::DotI8;
                $call
            }
            #[cfg(target_arch = "x86_64")]
            $crate::kernels::path::KernelPath::Vnni => {
                type $engine = $crate::kernels::avx512::DotI8;
                $call
            }
            _ => {
                type $engine = $crate::kernels::portable::PortableI8;
                $call
            }
        }
    }};
}

/// Runs `$call` with `$engine` bound to the FP32 engine of a path.
macro_rules! with_f32 {
    ($path:expr, $engine:ident => $call:expr) => {{
        let path = $path;
        assert!(path.is_available(), "this machine lacks the path {}", path.name());
        match path {
            #[cfg(target_arch = "x86_64")]
            $crate::kernels::path::KernelPath::Avx2
            | $crate::kernels::path::KernelPath::Avx2Vnni => {
                type $engine = $crate::kernels::avx2::SinglesF32;
                $call
            }
            #[cfg(target_arch = "x86_64")]
            $crate::kernels::path::KernelPath::Vnni => {
                type $engine = $crate::kernels::avx512::SinglesF32;
                $call
            }
            _ => {
                type $engine = $crate::kernels::portable::PortableF32;
                $call
            }
        }
    }};
}

/// The most of `$call` over every engine of this architecture, for a size that does not depend on
/// the machine.
macro_rules! most {
    ($engine:ident => $call:expr; $($candidate:ty),*) => {{
        let mut most = 0usize;
        $({
            type $engine = $candidate;
            most = most.max($call);
        })*
        most
    }};
}

#[cfg(target_arch = "x86_64")]
macro_rules! most_i8 {
    ($engine:ident => $call:expr) => {
        $crate::kernels::engines::most!($engine => $call; $crate::kernels::portable::PortableI8, $crate::kernels::avx2::PairsI8, $crate::kernels::avx2::DotI8, $crate::kernels::avx512::DotI8)
    };
}
#[cfg(target_arch = "x86_64")]
macro_rules! most_f32 {
    ($engine:ident => $call:expr) => {
        $crate::kernels::engines::most!($engine => $call; $crate::kernels::portable::PortableF32, $crate::kernels::avx2::SinglesF32, $crate::kernels::avx512::SinglesF32)
    };
}
#[cfg(not(target_arch = "x86_64"))]
macro_rules! most_i8 {
    ($engine:ident => $call:expr) => {
        $crate::kernels::engines::most!($engine => $call; $crate::kernels::portable::PortableI8)
    };
}
#[cfg(not(target_arch = "x86_64"))]
macro_rules! most_f32 {
    ($engine:ident => $call:expr) => {
        $crate::kernels::engines::most!($engine => $call; $crate::kernels::portable::PortableF32)
    };
}

pub(crate) use {most, most_f32, most_i8, with_f32, with_i8};
