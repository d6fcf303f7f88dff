# Completion of partita in fish; made by `partita info --completion fish`.

function __partita_overrides
    set -l parts (string split -m 1 = -- (commandline -ct))
    if set -q parts[2]
        set -l values
        switch $parts[1]
            case run/timing
                set values true false
            case run/device_aware_mpi
                set values auto on off
            case run/precision
                set values float bf16 fp16
            case data/kind
                set values glyphs grammar noise idx libsvm hdf5 text
            case data/standardise
                set values none scalar feature
            case network/initialisation
                set values he xavier lecun orthogonal
            case training/loss
                set values cross-entropy mse
            case optimiser/kind
                set values sgd adam adamw
            case optimiser/nesterov
                set values true false
            case optimiser/schedule
                set values constant step cosine
            case optimiser/offload
                set values none host file
            case strategy/kind
                set values joint sil pipeline
            case strategy/cuts
                set values flops memory
            case strategy/input
                set values free frozen relay
            case strategy/labels
                set values uniform centred gaussian sign binary sparse orthogonal etf block
            case strategy/loss
                set values mse prototype
            case strategy/match
                set values auto before after
            case strategy/initialisation
                set values cut he
            case strategy/mixture
                set values auto on off
            case strategy/reencode
                set values auto on off
            case strategy/label_start
                set values auto on off
            case strategy/later_hold
                set values auto on off
            case strategy/wire
                set values float bf16 fp16
            case strategy/schedule
                set values message-driven 1f1b 1f1b-eager gpipe
            case strategy/tie
                set values forward-first backward-first fifo
            case strategy/caps
                set values true false
        end
        for value in $values
            echo $parts[1]=$value
        end
    else
        printf '%s\t%s\n' \
            'run/seed=' 'seed of every random number' \
            'run/epochs=' 'passes of each stage over the training set' \
            'run/steps=' 'steps of each stage; 0: as many as `epochs` makes' \
            'run/log_every=' 'from one row of the history to the next; 0: a 200th of the run, 1000 at most' \
            'run/evaluate_every=' 'from one evaluation to the next; 0: at the end only' \
            'run/trace=' 'joint, pipeline: the first ones, whose operations go to trace.json of the run directory' \
            'run/timing=' 'wait after each phase and print where the time goes' \
            'run/watchdog=' 'the job ends where others have waited for a silent rank so long; more than the longest step takes; 0: never' \
            'run/device_aware_mpi=' 'give MPI buffers in device memory; auto: where it says that it takes them' \
            'run/precision=' 'parameters, gradients and activations: float, or rounded to 16 bits with float masters' \
            'data/kind=' 'built-in generator (glyphs, grammar; noise: for planning and timing) or format of the files' \
            'data/path=' 'folder of the files' \
            'data/train_images=' 'idx: file of the training images' \
            'data/train_labels=' 'idx: file of the training labels' \
            'data/test_images=' 'idx: file of the test images' \
            'data/test_labels=' 'idx: file of the test labels' \
            'data/train_file=' 'libsvm, hdf5, text: file of the training set' \
            'data/test_file=' 'libsvm, hdf5, text: file of the test set' \
            'data/features=' 'hdf5: name of the data set of the features' \
            'data/labels=' 'hdf5: name of the data set of the labels' \
            'data/vocabulary=' 'text: file of byte pairs, one a line; empty: each byte is a token' \
            'data/sequence=' 'text, grammar: in a sample; after each of them the next is to be told' \
            'data/samples=' 'training samples used, the first ones; 0: all, glyphs and grammar 20000, noise 1024' \
            'data/test_samples=' 'test samples used, the first ones; 0: all, glyphs 4000, grammar 1000, noise 256' \
            'data/classes=' '0: the largest label + 1, glyphs 47, noise 10, text and grammar as many as tokens' \
            'data/image_size=' 'glyphs, noise: side of an image' \
            'data/channels=' 'noise: of an image' \
            'data/distortion=' 'glyphs: scale of the random affine map' \
            'data/noise=' 'glyphs: deviation of the pixel noise' \
            'data/validation=' 'fraction of the training set held out' \
            'data/test_fraction=' 'libsvm, hdf5, text without a test file: fraction of the training set that is the test set; 0: the validation set is' \
            'data/standardise=' 'shift and scale from the training set: one for all features, or one each; not for tokens' \
            'data/prefetch=' 'made ahead by a thread of their own, where the rank has a core for it; microbatches where there are any; 0: none' \
            'network/layers=' 'one table a layer, from input to output; required' \
            'network/initialisation=' 'weights at the start' \
            'training/batch=' 'in a step, over all replicas' \
            'training/loss=' 'loss of the whole network, or of the last stage' \
            'training/label_smoothing=' 'cross-entropy: share of the target spread over all classes' \
            'optimiser/kind=' 'update rule' \
            'optimiser/learning_rate=' 'after warm-up, before any decay' \
            'optimiser/momentum=' 'sgd: decay of the velocity' \
            'optimiser/nesterov=' 'sgd: momentum of Nesterov' \
            'optimiser/beta1=' 'adam, adamw: decay of the mean gradient' \
            'optimiser/beta2=' 'adam, adamw: decay of the mean square' \
            'optimiser/epsilon=' 'adam, adamw: added to the root of the mean square' \
            'optimiser/weight_decay=' 'sgd, adam: added to the gradient; adamw: decoupled' \
            'optimiser/clip_norm=' 'largest norm of the gradient: of each stage, or of the network in joint training; 0: none' \
            'optimiser/schedule=' 'course of the learning rate' \
            'optimiser/warmup_steps=' 'linear rise from 0; a shorter run ends in it' \
            'optimiser/step_epochs=' 'step: from one drop to the next' \
            'optimiser/step_factor=' 'step: factor of each drop' \
            'optimiser/final_fraction=' 'cosine: last rate / learning_rate' \
            'optimiser/offload=' 'where master weights and moments lie: on the device, in memory of the host, or in a file' \
            'optimiser/offload_bucket=' 'host, file: on their way through the device at a time' \
            'optimiser/offload_directory=' 'file: folder of the files, which go with the run; empty: the run directory' \
            'strategy/kind=' 'whole network (joint), its stages on ranks of their own (pipeline), or stages by synthetic intermediate labels (sil)' \
            'strategy/stages=' 'sil, pipeline: number of parts of the network' \
            'strategy/replicas=' 'copies that share each batch; 0: ranks / stages' \
            'strategy/cuts=' 'what to balance, or the first layer of stages 2, 3, ... counted from 0 with repeats' \
            'strategy/input=' 'what stages behind a cut train on' \
            'strategy/labels=' 'kind of the synthetic labels' \
            'strategy/kappa=' 'scale of the labels' \
            'strategy/loss=' 'local loss at a cut' \
            'strategy/temperature=' 'prototype; 0: deviation of the labels * sqrt(width of the cut)' \
            'strategy/match=' 'labels meet the cut before or after its activation' \
            'strategy/initialisation=' 'last layer of a stage starts at the mean label (cut), or as the rest (he)' \
            'strategy/cut_gain=' 'cut: factor on the last weights of a stage' \
            'strategy/noise=' 'free without mixtures: noise on the inputs' \
            'strategy/mixture=' 'free: inputs are mixtures of labels; auto: with loss prototype' \
            'strategy/reencode=' 'what crosses a cut is replaced by posterior x labels; auto: free with loss prototype' \
            'strategy/label_start=' 'a later stage of one layer starts by passing the labels on; auto: with relay' \
            'strategy/later_rate=' 'factor on the learning rate of stages 2, 3, ...' \
            'strategy/later_hold=' 'stages 2, 3, ... keep their learning rate up until near the end; auto: with relay' \
            'strategy/queue=' 'relay, frozen: on their way between two stages' \
            'strategy/cache_directory=' 'frozen: folder of the spilled activations; empty: the run directory' \
            'strategy/bucket_kib=' 'replicas: gradients summed in one message, or a 64th of them if that is more' \
            'strategy/wire=' 'activations, their gradients and sums of gradients as they travel; the sums are rounded, too' \
            'strategy/recovery_epochs=' 'back-propagation through the joined stages afterwards' \
            'strategy/recovery_rate=' 'factor on the learning rate while recovering' \
            'strategy/microbatches=' 'joint, pipeline, recovery: parts of a replica\'s share of a batch, whose gradients add up' \
            'strategy/schedule=' 'pipeline, recovery: which microbatch a rank takes next, forward or backward' \
            'strategy/limit=' 'whose activations a rank keeps at most; 0: message-driven 2 x ranks of the pipeline, others as the schedule needs' \
            'strategy/tie=' 'message-driven: what goes first where both wait' \
            'strategy/caps=' 'message-driven: rank i of G, from 0, keeps G - i + G/2 microbatches at most' \
            'checkpoint/every=' 'from one checkpoint to the next, and one at the end; 0: only when the run is stopped or asked' \
            'checkpoint/keep=' 'the last ones that stay' \
            'checkpoint/compression=' 'level of deflate, 0: none; slow, and weights shrink little'
    end
end

complete -c partita -f
complete -c partita -n '__fish_use_subcommand' -s h -l help -d 'print this help and stop'
complete -c partita -n '__fish_use_subcommand' -l version -d 'print the version and stop'

complete -c partita -n __fish_use_subcommand -a train -d 'Train the network of a deck, on all ranks of mpirun'
complete -c partita -n '__fish_seen_subcommand_from train' -s d -l directory -x -a '(__fish_complete_directories)' -d 'run directory: deck, history, summary, checkpoints, parameters (default: nothing is kept)'
complete -c partita -n '__fish_seen_subcommand_from train' -s r -l restart -x -a 'latest (__fish_complete_path)' -d 'go on from the newest complete checkpoint of the run directory, or from this file; with `latest`, start afresh where there is none'
complete -c partita -n '__fish_seen_subcommand_from train' -l overwrite -d 'replace the results of an earlier run in the run directory'
complete -c partita -n '__fish_seen_subcommand_from train' -s t -l time-limit -x -a '' -d 'write a checkpoint and stop with exit code 75 after this wall time; also MM:SS or seconds'
complete -c partita -n '__fish_seen_subcommand_from train' -s n -l dry-run -d 'check deck and data, print the effective deck and the partition, and stop'
complete -c partita -n '__fish_seen_subcommand_from train' -l ranks -x -a '' -d 'with -n: plan for this many ranks'
complete -c partita -n '__fish_seen_subcommand_from train' -s h -l help -d 'print this help and stop'
complete -c partita -n '__fish_seen_subcommand_from train' -a '(__fish_complete_suffix .toml)'
complete -c partita -n '__fish_seen_subcommand_from train' -a '(__partita_overrides)'

complete -c partita -n __fish_use_subcommand -a evaluate -d 'Test accuracy of a run, on any number of ranks'
complete -c partita -n '__fish_seen_subcommand_from evaluate' -l predictions -x -a '(__fish_complete_path)' -d 'write features, labels and logits of the test samples to this .npz'
complete -c partita -n '__fish_seen_subcommand_from evaluate' -s h -l help -d 'print this help and stop'
complete -c partita -n '__fish_seen_subcommand_from evaluate' -a '(__fish_complete_suffix .h5)'
complete -c partita -n '__fish_seen_subcommand_from evaluate' -a '(__partita_overrides)'

complete -c partita -n __fish_use_subcommand -a export -d 'Write a trained network for other programs, as ONNX or NumPy'
complete -c partita -n '__fish_seen_subcommand_from export' -s o -l output -x -a '(__fish_complete_path)' -d 'file to write; its ending, .onnx or .npz, says the format'
complete -c partita -n '__fish_seen_subcommand_from export' -s h -l help -d 'print this help and stop'
complete -c partita -n '__fish_seen_subcommand_from export' -a '(__fish_complete_suffix .h5)'

complete -c partita -n __fish_use_subcommand -a info -d 'What this build is made of, or what a run or file holds'
complete -c partita -n '__fish_seen_subcommand_from info' -l deck -d 'print the reference of all deck parameters (Markdown)'
complete -c partita -n '__fish_seen_subcommand_from info' -l man -d 'print the man page (roff)'
complete -c partita -n '__fish_seen_subcommand_from info' -l completion -x -a 'bash zsh fish' -d 'print the completion script for this shell'
complete -c partita -n '__fish_seen_subcommand_from info' -s h -l help -d 'print this help and stop'
complete -c partita -n '__fish_seen_subcommand_from info' -a '(__fish_complete_suffix .h5)'

complete -c partita -n __fish_use_subcommand -a bench -d 'Measure matrix products, memory and training steps on this machine'
complete -c partita -n '__fish_seen_subcommand_from bench' -l json -x -a '(__fish_complete_path)' -d 'write a list of {name, value, unit}'
complete -c partita -n '__fish_seen_subcommand_from bench' -l quick -d 'fewer repetitions: shows that it runs, measures badly'
complete -c partita -n '__fish_seen_subcommand_from bench' -s h -l help -d 'print this help and stop'
complete -c partita -n '__fish_seen_subcommand_from bench' -a '(__partita_overrides)'
