//! The engine that a path has, and sizes that suit each of them.

/// Runs `$call` with `$engine` bound to the INT8 engine of a path: with `if $suits`, the one of tiles where the path has it and `$suits` is
/// true of it; else one of vectors. What one packs no other multiplies: a whole product is one call.
macro_rules! with_i8 {
    ($path:expr, $engine:ident if $suits:expr => $call:expr) => {{
        let path = $path;
        assert!(path.is_available(), "this machine lacks the path {}", path.name());
        match path {
            #[cfg(target_arch = "x86_64")]
            $crate::kernels::path::KernelPath::Amx
                if {
                    type $engine = $crate::kernels::amx::DotI8;
                    $suits
                } =>
            {
                type $engine = $crate::kernels::amx::DotI8;
                $call
            }
            path => $crate::kernels::engines::with_i8!(path, $engine => $call),
        }
    }};
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
            $crate::kernels::path::KernelPath::Vnni | $crate::kernels::path::KernelPath::Amx => {
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

/// Runs `$call` with `$engine` bound to the FP32 engine of a path, all of which suit every product.
macro_rules! with_f32 {
    ($path:expr, $engine:ident if $suits:expr => $call:expr) => {{
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
            $crate::kernels::path::KernelPath::Vnni | $crate::kernels::path::KernelPath::Amx => {
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

/// [`most`] over the INT8 engines of vectors.
#[cfg(target_arch = "x86_64")]
macro_rules! most_i8 {
    ($engine:ident => $call:expr) => {
        $crate::kernels::engines::most!($engine => $call; $crate::kernels::portable::PortableI8, $crate::kernels::avx2::PairsI8, $crate::kernels::avx2::DotI8, $crate::kernels::avx512::DotI8)
    };
}
/// [`most`] over the INT8 engines of vectors and tiles.
#[cfg(target_arch = "x86_64")]
macro_rules! most_tiles_i8 {
    ($engine:ident => $call:expr) => {
        $crate::kernels::engines::most!($engine => $call; $crate::kernels::portable::PortableI8, $crate::kernels::avx2::PairsI8, $crate::kernels::avx2::DotI8, $crate::kernels::avx512::DotI8, $crate::kernels::amx::DotI8)
    };
}
/// [`most`] over the FP32 engines.
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
macro_rules! most_tiles_i8 {
    ($engine:ident => $call:expr) => {
        $crate::kernels::engines::most_i8!($engine => $call)
    };
}
#[cfg(not(target_arch = "x86_64"))]
macro_rules! most_f32 {
    ($engine:ident => $call:expr) => {
        $crate::kernels::engines::most!($engine => $call; $crate::kernels::portable::PortableF32)
    };
}

pub(crate) use {most, most_f32, most_i8, most_tiles_i8, with_f32, with_i8};
