// Package rootfs is the file system that guests get: an experimental/sys.FS
// over [os.Root], so that no name, link or race leads out of the directory.
//
// wazero's own directory mount follows relative symbolic links that a guest
// makes and so reads and writes the host; it is never used here. Every
// operation of this package goes through os.Root, which resolves each
// component below an open directory handle and refuses what leaves it.
//
// On top of that an [FS] opens only regular files and directories, never calls
// fsync on the host, may be read-only, and charges a [Quota] for bytes and
// directory entries. It does not hide files from the guest and keeps no
// copies; anybody else who changes the directory meanwhile is tolerated, but
// what they add or remove is not in the quota until the next Measure.
package rootfs
